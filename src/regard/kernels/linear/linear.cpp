// Linear attention in one pass over the positions, forwards and backwards (Katharopoulos 2020, equations 5 to 15).
//
// With the features f of queries and keys, query i reads (f_i . M_i + sum_j s_ij [v_j, 1]), the last column of which
// divides the others: M is the sum of f_j [v_j, 1] over the keys before the query's chunk, s_ij = f_i . f_j over those
// of the chunk that it may attend to. The features elu + 1 are made here; their slope is the feature or 1, the smaller one.
//
// Keys before all queries (`early`) are only added up, queries before all keys, or beside them (`lone`), only read;
// the others stand in pairs. Where nothing is causal all keys are early and all queries lone.
//
#include <atomic>

#include "native/loops.hpp"

namespace {

using namespace loops;

constexpr int64_t kChunk = 32;  // positions: few scores beside the reads of M, in whole blocks of the product

// `multiply` in blocks of as many rows as divide a chunk and the usual widths: no row is left for a slow end.
template <typename T, bool kAdd>
void times(int64_t rows, int64_t columns, int64_t depth, const T* a, int64_t am, int64_t ak, const T* b, int64_t bk,
           T* c, int64_t cm) {
    constexpr int L = kLanes<T>, M = kRegisters == 32 ? 8 : 4;
    int64_t n = 0;
    for (; n + 2 * L <= columns; n += 2 * L) strip<T, M, 2, kAdd>(rows, depth, a, am, ak, b + n, bk, c + n, cm);
    for (; n < columns; n += L) strip<T, M, 1, kAdd>(rows, depth, a, am, ak, b + n, bk, c + n, cm);
}

template <typename T>
struct Rows {
    const T* at;
    int64_t stride;
};

// What one thread holds: the inputs of a chunk, ready for the products, and sums.
template <typename T>
struct Work {
    const abi::LinearCall<T>& s;
    const int64_t width, value_width, pitch;  // numbers of a row, up to whole vectors; of a row of given
    std::vector<T> query, key, key_across, values, values_across, scores, slopes, given, out, other, sums, across;
    std::vector<T> ones;
    Vec<T> nonfinite = {};  // NaN once something was not finite

    explicit Work(const abi::LinearCall<T>& sizes)
        : s(sizes),
          width(whole<T>(sizes.width)),
          value_width(whole<T>(sizes.value_width)),
          pitch(value_width + kLanes<T>),
          query(kChunk * width),
          key(kChunk * width),
          key_across(width * kChunk),
          values(kChunk * value_width),
          values_across((value_width + 1) * kChunk),
          scores(kChunk * kChunk),
          slopes(kChunk * kChunk),
          given(kChunk * pitch),
          out(kChunk * std::max(width, value_width)),
          other(kChunk * value_width),
          sums(width * value_width),
          across((value_width + 1) * width),
          ones(width) {}

    bool finite() const {
        for (int i = 0; i < kLanes<T>; ++i)
            if (nonfinite[i] != 0) return false;
        return true;
    }

    // Rows of `columns` numbers into rows of whole vectors, zeros behind; those that are masked out become zeros.
    template <typename Map>
    void copy(int64_t count, int64_t columns, Rows<T> from, const uint8_t* keep, T* to, const Map& map) {
        constexpr int L = kLanes<T>;
        int64_t padded = whole<T>(columns), full = columns / L * L;
        for (int64_t i = 0; i < count; ++i) {
            const T* row = from.at + i * from.stride;
            T* into = to + i * padded;
            if (keep && !keep[i]) {
                std::fill(into, into + padded, T(0));
                continue;
            }
            for (int64_t c = 0; c < full; c += L) {
                Vec<T> x = load(row + c);
                nonfinite += x * T(0);
                store(into + c, map(x));
            }
            if (full < columns) {
                T rest[L] = {};
                std::copy(row + full, row + columns, rest);
                Vec<T> x = load(rest);
                nonfinite += x * T(0);
                store(rest, map(x));
                std::fill(rest + (columns - full), rest + L, T(0));
                store(into + full, load(rest));
            }
        }
    }
    void features(int64_t count, Rows<T> from, const uint8_t* keep, T* to) {
        if (s.elu)
            copy(count, s.width, from, keep, to, [](Vec<T> x) {
                Vec<T> zero = {};
                return x > zero ? x + 1 : exponential<T>(x < zero ? x : zero);
            });
        else
            copy(count, s.width, from, keep, to, [](Vec<T> x) { return x; });
    }
    void into_features(int64_t count, const T* slope, const T* features, T* to) const {
        for (int64_t i = 0; i < count; ++i)
            for (int64_t c = 0; c < s.width; ++c) {
                T feature = features[i * width + c];
                to[i * s.width + c] = slope[i * width + c] * (s.elu && feature < 1 ? feature : T(1));
            }
    }
};

// to (columns × rows) = from (rows × columns) transposed
template <typename T>
void turn(int64_t rows, int64_t columns, const T* from, int64_t from_stride, T* to, int64_t to_stride) {
    for (int64_t c = 0; c < columns; ++c)
        for (int64_t r = 0; r < rows; ++r) to[c * to_stride + r] = from[r * from_stride + c];
}

// Nothing above the diagonal: later keys are masked out.
template <typename T>
void lower(int64_t count, T* scores) {
    for (int64_t i = 0; i < count; ++i) std::fill(scores + i * kChunk + i + 1, scores + (i + 1) * kChunk, T(0));
}

template <typename T>
struct Call {
    const abi::LinearCall<T>& s;

    Rows<T> queries(int64_t b, int64_t h, int64_t g, int64_t at) const {
        const int64_t* apart = s.query_strides;
        return {s.query + b * apart[0] + h * apart[1] + g * apart[2] + at * apart[3], apart[3]};
    }
    Rows<T> keys(int64_t b, int64_t h, int64_t at) const {
        const int64_t* apart = s.key_strides;
        return {s.key + b * apart[0] + h * apart[1] + at * apart[2], apart[2]};
    }
    Rows<T> values(int64_t b, int64_t h, int64_t at) const {
        const int64_t* apart = s.value_strides;
        return {s.value + b * apart[0] + h * apart[1] + at * apart[2], apart[2]};
    }
    const uint8_t* kept(int64_t b, int64_t at) const {
        return s.keep ? s.keep + b * s.keep_strides[0] + at : nullptr;
    }
    void load_keys(Work<T>& w, int64_t b, int64_t h, int64_t at, int64_t count) const {
        w.features(count, keys(b, h, at), kept(b, at), w.key.data());
        w.copy(count, s.value_width, values(b, h, at), kept(b, at), w.values.data(), [](Vec<T> x) { return x; });
    }
    int64_t cost() const {
        return s.batch * s.heads * (s.queries * s.group + s.keys) * s.width * (s.value_width + kChunk);
    }
};

// --- forwards -------------------------------------------------------------------------------------------------------

// memory (items, heads, width, value_width + 1) before and after, the first of which may be missing;
// context (items, heads, group, queries, value_width) and total, what it was divided by.
template <typename T>
bool forward(const abi::LinearForward<T>& s) {
    const T* before = s.before;
    T *context = s.context, *total = s.total, *after = s.after;
    constexpr int L = kLanes<T>;
    Call<T> call{s};
    std::atomic<bool> finite{true};
    share(s.batch * s.heads, 1, s.threads, call.cost(), [&](int64_t begin, int64_t end) {
        Work<T> w(s);
        const int64_t D = w.width, V = w.value_width, columns = s.value_width + 1;
        auto absorb = [&](int64_t count) {
            times<T, true>(s.width, V, count, w.key.data(), 1, D, w.values.data(), V, w.sums.data(), V);
            for (int64_t i = 0; i < count; ++i)
                for (int64_t c = 0; c < D; c += L)
                    store(&w.ones[c], load(&w.ones[c]) + load(&w.key[i * D + c]));
        };
        auto read = [&](int64_t item, int64_t g, int64_t at, int64_t count, bool paired) {
            w.features(count, call.queries(item / s.heads, item % s.heads, g, at), nullptr, w.query.data());
            times<T, false>(count, V, s.width, w.query.data(), D, 1, w.sums.data(), V, w.out.data(), V);
            if (paired) {
                times<T, false>(count, whole<T>(count), s.width, w.query.data(), D, 1, w.key_across.data(), kChunk,
                                w.scores.data(), kChunk);
                lower(count, w.scores.data());
                times<T, true>(count, V, count, w.scores.data(), kChunk, 1, w.values.data(), V, w.out.data(), V);
            }
            int64_t first = (item * s.group + g) * s.queries + at;
            for (int64_t i = 0; i < count; ++i) {
                Vec<T> parts = {};
                for (int64_t c = 0; c < D; c += L) parts += load(&w.query[i * D + c]) * load(&w.ones[c]);
                if (paired)
                    for (int64_t j = 0; j <= i; j += L) parts += load(&w.scores[i * kChunk + j]);
                T all = sum<T>(parts);
                total[first + i] = all;
                T* into = context + (first + i) * s.value_width;
                for (int64_t c = 0; c < s.value_width; ++c) into[c] = all != 0 ? w.out[i * V + c] / all : T(0);
            }
        };
        for (int64_t item = begin; item < end; ++item) {
            int64_t b = item / s.heads, h = item % s.heads, pairs = s.keys - s.early;
            for (int64_t f = 0; f < s.width; ++f) {
                const T* row = before ? before + (item * s.width + f) * columns : nullptr;
                for (int64_t c = 0; c < V; ++c) w.sums[f * V + c] = row && c < s.value_width ? row[c] : T(0);
                w.ones[f] = row ? row[s.value_width] : T(0);
            }
            for (int64_t at = 0; at < s.early; at += kChunk) {
                int64_t count = std::min(kChunk, s.early - at);
                call.load_keys(w, b, h, at, count);
                absorb(count);
            }
            for (int64_t g = 0; g < s.group; ++g)
                for (int64_t at = 0; at < s.lone; at += kChunk)
                    read(item, g, at, std::min(kChunk, s.lone - at), false);
            for (int64_t at = 0; at < pairs; at += kChunk) {
                int64_t count = std::min(kChunk, pairs - at);
                call.load_keys(w, b, h, s.early + at, count);
                turn(count, D, w.key.data(), D, w.key_across.data(), kChunk);
                for (int64_t g = 0; g < s.group; ++g) read(item, g, s.lone + at, count, true);
                absorb(count);
            }
            for (int64_t f = 0; f < s.width; ++f) {
                T* row = after + (item * s.width + f) * columns;
                std::copy(&w.sums[f * V], &w.sums[f * V] + s.value_width, row);
                row[s.value_width] = w.ones[f];
            }
        }
        if (!w.finite()) finite = false;
    });
    return finite;
}

// --- backwards ------------------------------------------------------------------------------------------------------

// `given` is that of the context, `given_after` that of the memory after all (or missing); `into_before` may be missing.
template <typename T>
void backward(const abi::LinearBackward<T>& s) {
    const T *before = s.before, *context = s.context, *total = s.total;
    const T *given = s.given, *given_after = s.given_after;
    T *into_query = s.into_query, *into_key = s.into_key, *into_value = s.into_value, *into_before = s.into_before;
    Call<T> call{s};
    share(s.batch * s.heads, 1, s.threads, 3 * call.cost(), [&](int64_t begin, int64_t end) {
        Work<T> w(s);
        const int64_t D = w.width, V = w.value_width, P = w.pitch, last = s.value_width, columns = last + 1;
        const int64_t pairs = s.keys - s.early;
        auto load_queries = [&](int64_t item, int64_t g, int64_t at, int64_t count) {
            w.features(count, call.queries(item / s.heads, item % s.heads, g, at), nullptr, w.query.data());
            int64_t first = (item * s.group + g) * s.queries + at;
            for (int64_t i = 0; i < count; ++i) {  // what numerator and denominator are given
                T all = total[first + i], share = all != 0 ? 1 / all : T(0), through = 0;
                const T *up = given + (first + i) * last, *read = context + (first + i) * last;
                T* row = &w.given[i * P];
                for (int64_t c = 0; c < last; ++c) row[c] = up[c] * share;
                for (int64_t c = 0; c < last; ++c) through += row[c] * read[c];
                row[last] = -through;
            }
        };
        auto load_keys = [&](int64_t b, int64_t h, int64_t at, int64_t count) {
            call.load_keys(w, b, h, at, count);
            turn(count, last, w.values.data(), V, w.values_across.data(), kChunk);
            std::fill(&w.values_across[last * kChunk], &w.values_across[last * kChunk] + kChunk, T(0));
            const uint8_t* kept = call.kept(b, at);
            for (int64_t i = 0; i < count; ++i) w.values_across[last * kChunk + i] = !kept || kept[i] ? 1 : 0;
        };
        // What the weight of each pair is given: (given of the read) . [value, 1].
        auto slopes = [&](int64_t count) {
            times<T, false>(count, whole<T>(count), columns, w.given.data(), P, 1, w.values_across.data(), kChunk,
                            w.slopes.data(), kChunk);
            lower(count, w.slopes.data());
        };
        for (int64_t item = begin; item < end; ++item) {
            int64_t b = item / s.heads, h = item % s.heads;
            // From the first to the last position: M, transposed, for the queries.
            for (int64_t c = 0; c < columns; ++c)
                for (int64_t f = 0; f < D; ++f)
                    w.across[c * D + f] = before && f < s.width ? before[(item * s.width + f) * columns + c] : T(0);
            auto absorb = [&](int64_t count) {
                times<T, true>(columns, D, count, w.values_across.data(), kChunk, 1, w.key.data(), D, w.across.data(),
                               D);
            };
            auto query_slopes = [&](int64_t g, int64_t at, int64_t count, bool paired) {
                load_queries(item, g, at, count);
                times<T, false>(count, D, columns, w.given.data(), P, 1, w.across.data(), D, w.out.data(), D);
                if (paired) {
                    slopes(count);
                    times<T, true>(count, D, count, w.slopes.data(), kChunk, 1, w.key.data(), D, w.out.data(), D);
                }
                int64_t first = (item * s.group + g) * s.queries + at;
                w.into_features(count, w.out.data(), w.query.data(), into_query + first * s.width);
            };
            for (int64_t at = 0; at < s.early; at += kChunk) {
                int64_t count = std::min(kChunk, s.early - at);
                load_keys(b, h, at, count);
                absorb(count);
            }
            for (int64_t g = 0; g < s.group; ++g)
                for (int64_t at = 0; at < s.lone; at += kChunk)
                    query_slopes(g, at, std::min(kChunk, s.lone - at), false);
            for (int64_t at = 0; at < pairs; at += kChunk) {
                int64_t count = std::min(kChunk, pairs - at);
                load_keys(b, h, s.early + at, count);
                for (int64_t g = 0; g < s.group; ++g) query_slopes(g, s.lone + at, count, true);
                absorb(count);
            }
            // From the last to the first: what M is given by the queries after a chunk, transposed, for the keys.
            for (int64_t c = 0; c < columns; ++c)
                for (int64_t f = 0; f < D; ++f)
                    w.across[c * D + f] =
                        given_after && f < s.width ? given_after[(item * s.width + f) * columns + c] : T(0);
            auto give = [&](int64_t count) {
                times<T, true>(columns, D, count, w.given.data(), 1, P, w.query.data(), D, w.across.data(), D);
            };
            auto key_slopes = [&](int64_t at, int64_t count, int64_t paired_at) {
                load_keys(b, h, at, count);
                turn(last, D, w.across.data(), D, w.sums.data(), V);
                times<T, false>(count, D, columns, w.values_across.data(), 1, kChunk, w.across.data(), D, w.out.data(),
                                D);
                times<T, false>(count, V, s.width, w.key.data(), D, 1, w.sums.data(), V, w.other.data(), V);
                if (paired_at >= 0) {
                    turn(count, D, w.key.data(), D, w.key_across.data(), kChunk);
                    for (int64_t g = 0; g < s.group; ++g) {
                        load_queries(item, g, paired_at, count);
                        slopes(count);
                        times<T, true>(count, D, count, w.slopes.data(), 1, kChunk, w.query.data(), D, w.out.data(),
                                       D);
                        times<T, false>(count, whole<T>(count), s.width, w.query.data(), D, 1, w.key_across.data(),
                                        kChunk, w.scores.data(), kChunk);
                        lower(count, w.scores.data());
                        times<T, true>(count, V, count, w.scores.data(), 1, kChunk, w.given.data(), P, w.other.data(),
                                       V);
                        give(count);
                    }
                }
                const uint8_t* kept = call.kept(b, at);
                if (kept)
                    for (int64_t i = 0; i < count; ++i)
                        if (!kept[i]) {
                            std::fill(&w.out[i * D], &w.out[i * D] + D, T(0));
                            std::fill(&w.other[i * V], &w.other[i * V] + V, T(0));
                        }
                int64_t first = item * s.keys + at;
                w.into_features(count, w.out.data(), w.key.data(), into_key + first * s.width);
                for (int64_t i = 0; i < count; ++i)
                    std::copy(&w.other[i * V], &w.other[i * V] + last, into_value + (first + i) * last);
            };
            for (int64_t at = (pairs - 1) / kChunk * kChunk; at >= 0 && pairs > 0; at -= kChunk)
                key_slopes(s.early + at, std::min(kChunk, pairs - at), s.lone + at);
            for (int64_t g = 0; g < s.group; ++g)
                for (int64_t at = 0; at < s.lone; at += kChunk) {
                    int64_t count = std::min(kChunk, s.lone - at);
                    load_queries(item, g, at, count);
                    give(count);
                }
            for (int64_t at = 0; at < s.early; at += kChunk)
                key_slopes(at, std::min(kChunk, s.early - at), -1);
            if (into_before)
                for (int64_t f = 0; f < s.width; ++f)
                    for (int64_t c = 0; c < columns; ++c)
                        into_before[(item * s.width + f) * columns + c] = w.across[c * D + f];
        }
    });
}

}  // namespace

#define REGARD_LINEAR(NAME, T)                                                                          \
    extern "C" bool linear_forward_##NAME(const abi::LinearForward<T>& call) { return forward(call); } \
    extern "C" void linear_backward_##NAME(const abi::LinearBackward<T>& call) { backward(call); }

REGARD_LINEAR(float32, float)
REGARD_LINEAR(float64, double)
