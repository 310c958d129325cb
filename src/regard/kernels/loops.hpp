// What the compiled loops share: threads, vectors as wide as the processor's, and products of small blocks.
//
// Vectors are the compiler's own extension, so one text serves every processor. Nothing here is compiled with relaxed
// arithmetic: a NaN stays one, and sums are added up in the order in which they stand.

#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

namespace loops {

// --- threads --------------------------------------------------------------------------------------------------------

constexpr int64_t kEach = 1 << 20;  // a thread is worth its start above so many operations

// work(begin, end) over 0 … size, in parts that begin at multiples of step; `cost` is in operations.
template <typename Work>
void share(int64_t size, int64_t step, int64_t threads, int64_t cost, const Work& work) {
    int64_t steps = (size + step - 1) / step;
    threads = std::max<int64_t>(1, std::min({threads, steps, 1 + cost / kEach}));
    std::vector<std::thread> others;
    for (int64_t n = 1; n < threads; ++n) {
        int64_t begin = steps * n / threads * step, end = std::min(size, steps * (n + 1) / threads * step);
        try {
            others.emplace_back(work, begin, end);
        } catch (const std::system_error&) {  // no thread is to be had: this one does it
            work(begin, end);
        }
    }
    work(0, threads > 1 ? steps / threads * step : size);
    for (auto& other : others) other.join();
}

// --- vectors --------------------------------------------------------------------------------------------------------

#ifdef __AVX512F__
constexpr int kBytes = 64, kRegisters = 32;
#else
constexpr int kBytes = 32, kRegisters = 16;
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
template <typename T>
inline T largest(Vec<T> numbers) {
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

// e^x for x ≤ 88 (float) or 709 (double), to about one unit in the last place; 0 where the answer would be no normal
// number, NaN of NaN. x = n ln 2 + r, and e^r is its Taylor series for |r| ≤ ln 2 / 2.
template <typename T>
inline Vec<T> exponential(Vec<T> x) {
    constexpr bool narrow = std::is_same_v<T, float>;
    constexpr T lowest = narrow ? T(-87.3) : T(-708.3);
    constexpr T high = narrow ? T(0.693359375) : T(6.93145751953125e-1);  // ln 2, its first digits
    constexpr T low = narrow ? T(-2.12194440e-4) : T(1.42860682030941723212e-6);
    constexpr T magic = narrow ? T(12582912.0) : T(6755399441055744.0);  // 1.5 · 2^23 (2^52): adding it rounds
    using Integers = typename Wide<T>::Integers;
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
    constexpr int mantissa = narrow ? 23 : 52;
    // The whole number stands in the last bits of `shifted`: moved up it is added to the exponent.
    Integers power = (Integers)shifted << mantissa;
    value = (Vec<T>)((Integers)value + power);
    return x < lowest ? Vec<T>{} : value;
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
    if constexpr (M > 1)
        if (m < rows)
            strip<T, M / 2, N, kAdd>(rows - m, depth, a + m * am, am, ak, b, bk, c + m * cm, cm);
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
