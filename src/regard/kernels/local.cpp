// Products with a window of rows for each query: scores of its keys, what it reads of them, and the way back of both.
//
// The window of query q begins at row first[q] and is `window` rows long; nothing is copied. Queries are gone through in
// the order of their windows, so that rows that several of them see are read from a cache. Each of the three is the
// gradient of the other two (see local.py).
//
#include "loops.hpp"

namespace {

using namespace loops;

struct Sizes {
    int64_t batch, queries, window, width, threads;
    int64_t rows[2];  // strides of the rows: of items, of rows
};

constexpr int kSome = 4;  // rows at a time

// work(row, how many, whether it is the first) for all rows of a window, some at a time
template <typename Work>
void in_groups(int64_t window, const Work& work) {
    int64_t w = 0;
    for (; w + kSome <= window; w += kSome) work(w, std::integral_constant<int, kSome>(), w == 0);
    for (; w < window; ++w) work(w, std::integral_constant<int, 1>(), w == 0);
}

// The sum of a vector's numbers, one half added to the other: few steps that wait for each other.
template <typename T>
T halved(Vec<T> numbers) {
    constexpr int L = kLanes<T>;
    T parts[L];
    store(parts, numbers);
    for (int half = L / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) parts[i] += parts[i + half];
    return parts[0];
}

// out (batch, queries, window) = each query's left · each row of its window
template <typename T>
void dots(const Sizes& s, const T* left, const T* rows, const int64_t* first, const int64_t* order, T* out) {
    constexpr int L = kLanes<T>;
    int64_t full = s.width / L * L, all = s.batch * s.queries;
    share(all, 1, s.threads, all * s.window * s.width, [=](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; ++at) {
            int64_t q = order[at];
            const T* one = left + q * s.width;
            const T* row = rows + q / s.queries * s.rows[0] + first[q] * s.rows[1];
            auto some = [&](int64_t w, auto count, bool) {
                constexpr int N = decltype(count)::value;
                Vec<T> sums[N] = {};
                for (int64_t c = 0; c < full; c += L) {
                    Vec<T> x = load(one + c);
                    for (int n = 0; n < N; ++n) sums[n] += x * load(row + (w + n) * s.rows[1] + c);
                }
                for (int n = 0; n < N; ++n) {
                    T total = halved<T>(sums[n]);
                    for (int64_t c = full; c < s.width; ++c) total += one[c] * row[(w + n) * s.rows[1] + c];
                    out[q * s.window + w + n] = total;
                }
            };
            in_groups(s.window, some);
        }
    });
}

// out (batch, queries, width) = sum of the window's rows, each times its weight
template <typename T>
void mix(const Sizes& s, const T* weights, const T* rows, const int64_t* first, const int64_t* order, T* out) {
    constexpr int L = kLanes<T>;
    int64_t all = s.batch * s.queries;
    share(all, 1, s.threads, all * s.window * s.width, [=](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; ++at) {
            int64_t q = order[at];
            const T* weight = weights + q * s.window;
            const T* row = rows + q / s.queries * s.rows[0] + first[q] * s.rows[1];
            T* into = out + q * s.width;
            // Some rows at a time, as they lie: memory is the limit.
            auto some = [&](int64_t w, auto count, bool first_rows) {
                constexpr int N = decltype(count)::value;
                int64_t c = 0;
                for (; c + L <= s.width; c += L) {
                    Vec<T> sums = first_rows ? Vec<T>{} : load(into + c);
                    for (int n = 0; n < N; ++n) sums += weight[w + n] * load(row + (w + n) * s.rows[1] + c);
                    store(into + c, sums);
                }
                for (; c < s.width; ++c) {
                    T total = first_rows ? T(0) : into[c];
                    for (int n = 0; n < N; ++n) total += weight[w + n] * row[(w + n) * s.rows[1] + c];
                    into[c] = total;
                }
            };
            in_groups(s.window, some);
        }
    });
}

// Adds to each row of the window the query's left times its weight; threads share items, whose rows no other one has.
template <typename T>
void spread(const Sizes& s, const T* weights, const T* left, const int64_t* first, const int64_t* order, T* into) {
    constexpr int L = kLanes<T>;
    share(s.batch, 1, s.threads, s.batch * s.queries * s.window * s.width, [=](int64_t begin, int64_t end) {
        for (int64_t at = begin * s.queries; at < end * s.queries; ++at) {
            int64_t q = order[at];
            const T* one = left + q * s.width;
            T* row = into + q / s.queries * s.rows[0] + first[q] * s.rows[1];
            for (int64_t w = 0; w < s.window; ++w, row += s.rows[1]) {
                T weight = weights[q * s.window + w];
                int64_t c = 0;
                for (; c + L <= s.width; c += L) store(row + c, load(row + c) + weight * load(one + c));
                for (; c < s.width; ++c) row[c] += weight * one[c];
            }
        }
    });
}

}  // namespace

#define REGARD_LOCAL(NAME, T)                                                                                         \
    extern "C" void local_dots_##NAME(const Sizes* s, const int64_t* first, const int64_t* order, const T* left,      \
                                      const T* rows, T* out) {                                                        \
        dots<T>(*s, left, rows, first, order, out);                                                                   \
    }                                                                                                                 \
    extern "C" void local_mix_##NAME(const Sizes* s, const int64_t* first, const int64_t* order, const T* weights,    \
                                     const T* rows, T* out) {                                                         \
        mix<T>(*s, weights, rows, first, order, out);                                                                 \
    }                                                                                                                 \
    extern "C" void local_spread_##NAME(const Sizes* s, const int64_t* first, const int64_t* order, const T* weights, \
                                        const T* left, T* into) {                                                     \
        spread<T>(*s, weights, left, first, order, into);                                                             \
    }

REGARD_LOCAL(float32, float)
REGARD_LOCAL(float64, double)
