// What the native loops share: threads, vectors as wide as the processor's, and products of small blocks.
//
// Vectors are the compiler's own extension, so one text serves every processor. Nothing here is compiled with relaxed
// arithmetic: a NaN stays one, and sums are added up in the order in which they stand.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <new>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace loops {

// --- what loops are given -------------------------------------------------------------------------------------------

// Half types are computed in float32.
template <typename T>
using Work = std::conditional_t<sizeof(T) == 8, double, float>;

// Where numbers lie: the address of the first, and the steps between neighbours.
struct View {
    int64_t at, item, head, row, column;

    template <typename S>
    S* of(int64_t i, int64_t h) const {
        return reinterpret_cast<S*>(at) + i * item + h * head;
    }
    // The rows from `first` on of one item's head.
    template <typename S>
    View rows(int64_t i, int64_t h, int64_t first) const {
        return {reinterpret_cast<int64_t>(of<S>(i, h) + first * row), 0, 0, row, column};
    }
};

// --- threads --------------------------------------------------------------------------------------------------------

constexpr int64_t kEach = 1 << 20;  // a thread is worth its start above so many operations

// Whether a loop of this thread ran out of memory. An exception must not leave a loop: Python cannot catch it, and the
// program would end. `abi.py` checks after each call.
inline thread_local bool failed = false;

// work(begin, end) over 0 … size, in parts that begin at multiples of step; `cost` is in operations.
template <typename Work>
void share(int64_t size, int64_t step, int64_t threads, int64_t cost, const Work& work) {
    int64_t steps = (size + step - 1) / step;
    threads = std::max<int64_t>(1, std::min({threads, steps, 1 + cost / kEach}));
    std::atomic<bool> broken{false};
    auto safe = [&](int64_t begin, int64_t end) {
        try {
            work(begin, end);
        } catch (const std::bad_alloc&) {
            broken = true;
        }
    };
    std::vector<std::thread> others;
    for (int64_t n = 1; n < threads; ++n) {
        int64_t begin = steps * n / threads * step, end = std::min(size, steps * (n + 1) / threads * step);
        try {
            others.emplace_back(safe, begin, end);
        } catch (const std::exception&) {  // no thread, or no place to note it, is to be had: this one does it
            safe(begin, end);
        }
    }
    safe(0, threads > 1 ? steps / threads * step : size);
    for (auto& other : others) other.join();
    if (broken) failed = true;
}

// --- vectors --------------------------------------------------------------------------------------------------------

// No wider than the processor's: GCC keeps wider ones in memory, where dot products took twelve times as long.
#if defined(__AVX512F__)
constexpr int kBytes = 64, kRegisters = 32;
#elif defined(__AVX__)
constexpr int kBytes = 32, kRegisters = 16;
#elif defined(__aarch64__)
constexpr int kBytes = 16, kRegisters = 32;
#else
constexpr int kBytes = 16, kRegisters = 16;
#endif

template <typename T>
struct Wide {
    typedef T Vector __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
    using Whole = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
    typedef Whole Integers __attribute__((vector_size(kBytes), aligned(alignof(T)), may_alias));
    static constexpr int kLanes = kBytes / sizeof(T);
};
template <typename T>
using Vec = typename Wide<T>::Vector;
template <typename T>
constexpr int kLanes = Wide<T>::kLanes;

template <typename T>
constexpr int64_t whole(int64_t size) {  // up to the next multiple of a vector's numbers
    return (size + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
}
template <typename T>
inline Vec<T> load(const T* from) {
    return *reinterpret_cast<const Vec<T>*>(from);
}
template <typename T>
inline void store(T* to, Vec<T> numbers) {
    *reinterpret_cast<Vec<T>*>(to) = numbers;
}
template <typename T>
inline Vec<T> all(T number) {
    return number - Vec<T>{};  // −0 stays −0
}
// A NaN in either is dropped or kept as the second operand's is: bring the running maximum as the first.
template <typename T>
inline Vec<T> larger(Vec<T> one, Vec<T> other) {
    return one > other ? one : other;
}
template <typename T>
inline T sum(Vec<T> numbers) {
    T total = 0;
    for (int i = 0; i < kLanes<T>; ++i) total += numbers[i];
    return total;
}
// The same, one half added to the other: few steps that wait for each other.
template <typename T>
inline T halved(Vec<T> numbers) {
#ifdef __AVX512F__
    if constexpr (std::is_same_v<T, float>) return _mm512_reduce_add_ps((__m512)numbers);
    if constexpr (std::is_same_v<T, double>) return _mm512_reduce_add_pd((__m512d)numbers);
#endif
    for (int half = kLanes<T> / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) numbers[i] += numbers[i + half];
    return numbers[0];
}
#if defined(__has_builtin)
#if __has_builtin(__builtin_shufflevector)
#define REGARD_SHUFFLES
#endif
#endif
#ifdef REGARD_SHUFFLES
// Of two vectors in groups of kGroup partial sums, one vector of twice as many groups, half as long.
template <typename T, int kGroup, int... I>
inline Vec<T> folded(Vec<T> one, Vec<T> other, std::integer_sequence<int, I...>) {
    constexpr int half = kGroup / 2;
    return __builtin_shufflevector(one, other, (I / half * kGroup + I % half)...) +
           __builtin_shufflevector(one, other, (I / half * kGroup + I % half + half)...);
}
template <typename T, int kGroup = 2>
inline Vec<T> totals(const Vec<T>* of) {
    constexpr int L = kLanes<T>;
    if constexpr (kGroup > L) {
        return *of;
    } else {  // of the first half of the vectors and of the second
        constexpr int each = L / kGroup;
        return folded<T, kGroup>(totals<T, 2 * kGroup>(of), totals<T, 2 * kGroup>(of + each),
                                 std::make_integer_sequence<int, L>{});
    }
}
#else
// The sum of each of kLanes vectors, side by side.
template <typename T>
inline Vec<T> totals(const Vec<T>* of) {
    Vec<T> found;
    for (int i = 0; i < kLanes<T>; ++i) found[i] = sum<T>(of[i]);
    return found;
}
#endif
template <typename T>
inline T largest(Vec<T> numbers) {
#ifdef __AVX512F__
    if constexpr (std::is_same_v<T, float>) return _mm512_reduce_max_ps((__m512)numbers);
    if constexpr (std::is_same_v<T, double>) return _mm512_reduce_max_pd((__m512d)numbers);
#endif
    T found = numbers[0];
    for (int i = 1; i < kLanes<T>; ++i) found = found > numbers[i] ? found : numbers[i];
    return found;
}

// 1 / x, to about one unit in the last place, for x from 2^-126 to 2^126; beyond, division.
template <typename T>
inline Vec<T> inverse(Vec<T> x) {
#ifdef __AVX512F__
    if constexpr (std::is_same_v<T, float>) {
        Vec<T> guess = (Vec<T>)_mm512_rcp14_ps((__m512)x);
        return guess * (2 - x * guess);
    }
#endif
    return 1 / x;
}

// Adding it rounds to whole numbers, 1.5 · 2^23 (2^52), and leaves n plus the exponent of 1 in the last bits.
template <typename T>
constexpr T kMagic = std::is_same_v<T, float> ? T(12582912.0 + 127) : T(6755399441055744.0 + 1023);

// 2^n, of n + kMagic. (Multiplying by it, a NaN stays one; adding n to an exponent could make a number of it.)
template <typename T>
inline Vec<T> whole_power(Vec<T> shifted) {
    return (Vec<T>)((typename Wide<T>::Integers)shifted << (sizeof(T) == 4 ? 23 : 52));
}

// e^x for x ≤ 88 (float) or 709 (double), to about one unit in the last place; 0 where the answer would be no normal
// number, NaN of NaN. x = n ln 2 + r, and e^r is its Taylor series for |r| ≤ ln 2 / 2.
template <typename T>
inline Vec<T> exponential(Vec<T> x) {
    constexpr bool narrow = std::is_same_v<T, float>;
    constexpr T lowest = narrow ? T(-87.3) : T(-708.3);
    constexpr T high = narrow ? T(0.693359375) : T(6.93145751953125e-1);  // ln 2, its first digits
    constexpr T low = narrow ? T(-2.12194440e-4) : T(1.42860682030941723212e-6);
    constexpr T magic = kMagic<T>;
    Vec<T> shifted = x * T(1.44269504088896340736) + magic;
    Vec<T> n = shifted - magic;
    Vec<T> r = (x - n * high) - n * low;
    constexpr int terms = narrow ? 7 : 13;
    constexpr T inverse_factorial[] = {1,
                                       1,
                                       T(1) / 2,
                                       T(1) / 6,
                                       T(1) / 24,
                                       T(1) / 120,
                                       T(1) / 720,
                                       T(1) / 5040,
                                       T(1) / 40320,
                                       T(1) / 362880,
                                       T(1) / 3628800,
                                       T(1) / 39916800,
                                       T(1) / 479001600};
    Vec<T> value = all<T>(inverse_factorial[terms - 1]);
#pragma GCC unroll 16
    for (int i = terms - 2; i >= 0; --i) value = value * r + inverse_factorial[i];
    return x < lowest ? Vec<T>{} : value * whole_power<T>(shifted);
}

// 2^x for x < 128 (float) or 1024 (double), to about one unit in the last place, cheaper than `exponential`; towards 0 at
// −inf, NaN of NaN.
template <typename T>
inline Vec<T> power_of_two(Vec<T> x) {
    constexpr bool narrow = std::is_same_v<T, float>;
#ifdef __AVX512DQ__
    if constexpr (narrow) {  // x minus the next lower whole number, and 2 to that whole number: one instruction each
        Vec<T> r = (Vec<T>)_mm512_reduce_ps((__m512)x, 1);
        Vec<T> value = all<T>(0.0018671300495043397f);
        for (T factor : {0.009017030708491802f, 0.05579991266131401f, 0.24016444385051727f, 0.6931512951850891f, 1.0f})
            value = value * r + factor;
        return (Vec<T>)_mm512_scalef_ps((__m512)value, (__m512)x);
    }
#endif
    constexpr T lowest = narrow ? T(-126) : T(-1022);
    Vec<T> shifted = x + kMagic<T>;
    Vec<T> r = x - (shifted - kMagic<T>);
    // float: the polynomial whose largest relative error is least for |r| ≤ 1/2, 9e-8; double: the Taylor series, 2e-16.
    constexpr int terms = narrow ? 6 : 13;
    constexpr T factors[] = {1,
                             narrow ? T(0.6931470036506653) : T(0.6931471805599453),
                             narrow ? T(0.24022242426872253) : T(0.2402265069591007),
                             narrow ? T(0.05550733581185341) : T(0.05550410866482158),
                             narrow ? T(0.009671512991189957) : T(0.009618129107628477),
                             narrow ? T(0.001326472731307149) : T(0.0013333558146428443),
                             T(0.0001540353039338161),
                             T(1.5252733804059841e-05),
                             T(1.321548679014431e-06),
                             T(1.01780860092397e-07),
                             T(7.054911620801123e-09),
                             T(4.4455382718708116e-10),
                             T(2.5678435993488206e-11)};
    Vec<T> value = all<T>(factors[terms - 1]);
#pragma GCC unroll 16
    for (int i = terms - 2; i >= 0; --i) value = value * r + factors[i];
    return x < lowest ? Vec<T>{} : value * whole_power<T>(shifted);
}

// --- products -------------------------------------------------------------------------------------------------------

// C (M × N vectors) = [C +] A · B. A's element (m, k) lies at a[m·am + k·ak], B's row k at b + k·bk, C's row m at
// c + m·cm.
template <typename T, int M, int N, bool kAdd>
inline void product(int64_t depth, const T* a, int64_t am, int64_t ak, const T* b, int64_t bk, T* c, int64_t cm) {
    constexpr int L = kLanes<T>;
    Vec<T> sums[M][N];
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) sums[m][n] = kAdd ? load(c + m * cm + n * L) : Vec<T>{};
    for (int64_t k = 0; k < depth; ++k) {
        Vec<T> row[N];
        for (int n = 0; n < N; ++n) row[n] = load(b + k * bk + n * L);
        for (int m = 0; m < M; ++m) {
            T one = a[m * am + k * ak];
            for (int n = 0; n < N; ++n) sums[m][n] += one * row[n];
        }
    }
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) store(c + m * cm + n * L, sums[m][n]);
}

// The rows that are left when as many as possible went M at a time.
template <typename T, int M, int N, bool kAdd>
inline void strip(int64_t rows, int64_t depth, const T* a, int64_t am, int64_t ak, const T* b, int64_t bk, T* c,
                  int64_t cm) {
    int64_t m = 0;
    for (; m + M <= rows; m += M) product<T, M, N, kAdd>(depth, a + m * am, am, ak, b, bk, c + m * cm, cm);
    constexpr int fewer = M > 8 ? 8 : M > 4 ? 4 : M / 2;
    if constexpr (M > 1)
        if (m < rows) strip<T, fewer, N, kAdd>(rows - m, depth, a + m * am, am, ak, b, bk, c + m * cm, cm);
}

// C (rows × columns) = [C +] A · B, where columns is a multiple of a vector's numbers; see `product`.
template <typename T, bool kAdd>
inline void multiply(int64_t rows, int64_t columns, int64_t depth, const T* a, int64_t am, int64_t ak, const T* b,
                     int64_t bk, T* c, int64_t cm) {
    constexpr int L = kLanes<T>, M = kRegisters == 32 ? 12 : 6;
    int64_t n = 0;
    for (; n + 2 * L <= columns; n += 2 * L)
        strip<T, M, 2, kAdd>(rows, depth, a, am, ak, b + n, bk, c + n, cm);
    for (; n < columns; n += L) strip<T, M, 1, kAdd>(rows, depth, a, am, ak, b + n, bk, c + n, cm);
}

}  // namespace loops

// Whether a loop has failed since this was last called.
extern "C" inline __attribute__((used)) int loops_failed() {
    bool was = loops::failed;
    loops::failed = false;
    return was;
}
