// Rows of any type and any steps, written as the products take them; and back.

#pragma once

#include "dot/panels.hpp"

// GCC before 13 says on ARM how large such numbers are, and has none in C++.
#if defined(__FLT16_MAX__) && !(defined(__aarch64__) && !defined(__clang__) && __GNUC__ < 13)
#define REGARD_FLOAT16
#endif

namespace dot {

struct Brain {  // bfloat16
    uint16_t bits;
};

inline float number(float x) { return x; }
inline double number(double x) { return x; }
inline float number(Brain x) {
    uint32_t bits = uint32_t(x.bits) << 16;
    float found;
    std::memcpy(&found, &bits, sizeof found);
    return found;
}
inline void put(float x, float& to) { to = x; }
inline void put(double x, double& to) { to = x; }
inline void put(float x, Brain& to) {  // to the nearest, ties to even
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    to.bits = uint16_t(x != x ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
#ifdef REGARD_FLOAT16
inline float number(_Float16 x) { return float(x); }
inline void put(float x, _Float16& to) { to = _Float16(x); }
#endif

// rows × columns of `from`, times factor, one row after the other, each filled up with zeros to `stride`.
template <typename S, typename T>
void rows_of(const S* from, int64_t row, int64_t column, int64_t rows, int64_t columns, T factor, T* to,
             int64_t stride) {
    for (int64_t r = 0; r < rows; ++r, from += row, to += stride) {
        if (column == 1)
            for (int64_t c = 0; c < columns; ++c) to[c] = number(from[c]) * factor;
        else
            for (int64_t c = 0; c < columns; ++c) to[c] = number(from[c * column]) * factor;
        for (int64_t c = columns; c < stride; ++c) to[c] = 0;
    }
}

// rows × columns of `from` in panels, each of them with room for `depth` rows; the last is filled up with zeros.
template <typename S, typename T>
void panels_of(const S* from, int64_t row, int64_t column, int64_t rows, int64_t columns, T* to, int64_t depth) {
    for (int64_t c = 0; c < columns; c += kPanel<T>, from += kPanel<T> * column, to += depth * kPanel<T>) {
        int64_t size = std::min(kPanel<T>, columns - c);
        rows_of<S, T>(from, row, column, rows, size, T(1), to, kPanel<T>);
    }
}

#ifdef REGARD_SHUFFLES
template <int kHalf, bool kUpper, typename T, int... I>
inline Vec<T> exchanged(Vec<T> one, Vec<T> other, std::integer_sequence<int, I...>) {
    constexpr int L = kLanes<T>;
    if constexpr (kUpper)
        return __builtin_shufflevector(one, other, (I & kHalf ? L + I : I + kHalf)...);
    else
        return __builtin_shufflevector(one, other, (I & kHalf ? L + I - kHalf : I)...);
}
// As many vectors as each has numbers, transposed.
template <typename T, int kHalf = kLanes<T> / 2>
inline void turn(Vec<T>* rows) {
    if constexpr (kHalf > 0) {
        constexpr auto lanes = std::make_integer_sequence<int, kLanes<T>>{};
#pragma GCC unroll 16
        for (int n = 0; n < kLanes<T>; ++n) {
            if (n & kHalf) continue;
            Vec<T> one = rows[n], other = rows[n + kHalf];
            rows[n] = exchanged<kHalf, false, T>(one, other, lanes);
            rows[n + kHalf] = exchanged<kHalf, true, T>(one, other, lanes);
        }
        turn<T, kHalf / 2>(rows);
    }
}
#endif

// The same, transposed: `rows` are columns here, in panels of `columns` rows, up to whole panels.
template <typename S, typename T>
void transposed_panels_of(const S* from, int64_t row, int64_t column, int64_t rows, int64_t columns, T* to) {
    constexpr int64_t P = kPanel<T>;
    for (int64_t r = 0; r < rows; r += P, from += P * row, to += columns * P) {
        int64_t size = std::min(P, rows - r), c = 0;
#ifdef REGARD_SHUFFLES
        constexpr int64_t L = kLanes<T>;
        if (column == 1 && size == P)
            for (; c + L <= columns; c += L)
                for (int64_t part = 0; part < P; part += L) {
                    Vec<T> square[L];
                    for (int64_t j = 0; j < L; ++j) {
                        const S* line = from + (part + j) * row + c;
                        if constexpr (std::is_same_v<S, T>) {
                            square[j] = load(line);
                        } else {
                            T numbers[L];
                            for (int64_t i = 0; i < L; ++i) numbers[i] = number(line[i]);
                            square[j] = load(numbers);
                        }
                    }
                    turn<T>(square);
                    for (int64_t i = 0; i < L; ++i) store(to + (c + i) * P + part, square[i]);
                }
#endif
        for (; c < columns; ++c) {
            for (int64_t j = 0; j < size; ++j) to[c * P + j] = number(from[j * row + c * column]);
            for (int64_t j = size; j < P; ++j) to[c * P + j] = 0;
        }
    }
}

constexpr float kLargest = 0x1p60f, kSmallest = 0x1p-60f;  // what the matrix unit is given

// How large the numbers of some rows are, and whether times a factor they are of a size for the matrix unit.
template <typename T>
struct Reach {
    T longest = 0, largest = 0;  // squares: of a row's norm, and of a number
    bool fits = true;            // whether all are 0 or from kSmallest to kLargest
    bool safe = true;            // whether all are finite, and so are their squares together

    template <typename S>
    static Reach of(const View& view, int64_t item, int64_t head, int64_t rows, int64_t columns, T factor) {
        constexpr int64_t L = kLanes<T>;
        const S* from = view.of<const S>(item, head);
        const int64_t size = whole<T>(columns);
        if (view.row == 0) rows = std::min<int64_t>(rows, 1);  // all are the same
        Buffer<T> few(size);
        Vec<T> longest{}, total{};
        Bits most{}, least = ~most;
        for (int64_t first = 0; first < rows; first += L) {
            Vec<T> squares[L] = {};
            for (int64_t i = 0; i < std::min(L, rows - first); ++i, from += view.row) {
                const T* line = few.at;
                if constexpr (std::is_same_v<S, T>)
                    if (view.column == 1 && size == columns) line = from;
                if (line == few.at) rows_of<S, T>(from, 0, view.column, 1, columns, T(1), few.at, size);
                for (int64_t c = 0; c < size; c += L) {
                    const Vec<T> numbers = load(line + c);
                    const Bits bits = (Bits)numbers << 1;
                    most = most > bits ? most : bits;
                    least = least < bits - 1 ? least : bits - 1;
                    squares[i] += numbers * numbers;
                }
            }
            Vec<T> norms = loops::totals<T>(squares);
            longest = loops::larger<T>(longest, norms);
            total += norms;  // NaN, which is no larger and no smaller, stays in it
        }
        Reach reach;
        const Whole high = extreme(most, [](Whole one, Whole other) { return std::max(one, other); });
        const Whole low = extreme(least, [](Whole one, Whole other) { return std::min(one, other); }) + 1;
        const T by = std::abs(factor), largest = number_of(high), smallest = number_of(low);
        reach.longest = loops::largest<T>(longest), reach.largest = largest * largest;
        reach.safe = loops::sum<T>(total) <= std::numeric_limits<T>::max();
        reach.fits = by * largest <= T(kLargest) && (low == 0 || by * smallest >= T(kSmallest)) && reach.safe;
        return reach;
    }

  private:
    // Numbers without their signs are in the order of their bits; one less is more than all of them where they are 0.
    using Whole = std::make_unsigned_t<typename loops::Wide<T>::Whole>;
    typedef Whole Bits __attribute__((vector_size(loops::kBytes)));

    template <typename Choose>
    static Whole extreme(Bits bits, Choose&& choose) {
        Whole found = bits[0];
        for (int i = 1; i < kLanes<T>; ++i) found = choose(found, bits[i]);
        return found;
    }
    static T number_of(Whole bits) {  // shifted by the sign
        bits >>= 1;
        T number;
        std::memcpy(&number, &bits, sizeof number);
        return number;
    }
};

// Numbers rounded to their type, times factor, one row after the other.
template <typename S, typename T>
void write_rows(const T* from, int64_t stride, int64_t rows, int64_t columns, T factor, S* to) {
    for (int64_t r = 0; r < rows; ++r, from += stride, to += columns)
        for (int64_t c = 0; c < columns; ++c) put(from[c] * factor, to[c]);
}

}  // namespace dot
