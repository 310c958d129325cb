// Products of large matrices of floats by the processor's matrix unit: as exact as vectors have them, in less time. See
// dot_tiles.hpp for how the unit multiplies floats. What is below its smallest number, 2^-126, is lost: of a part of a
// left number times factor, of one of a right number, or of their product.
//
// Some columns and some of the depth of the right side are laid out as tiles that stay in the second cache; 32 rows of
// the left side at a time go over them.

#include "dot/amx/products.hpp"

#ifdef DOT_MATRIX_UNIT

#include <atomic>

namespace {

using dot::kThree, dot::put_pairs, dot::turn;
using loops::Vec;

constexpr int64_t kStrip = 16, kSome = 32, kTile = tiles::kTile, kBoth = 2 * kThree;  // bytes of two tiles of three parts
constexpr int64_t kColumns = 512, kDepth = 512;  // of the right side that is held
constexpr int64_t kAcross = kColumns + kStrip;   // a row of sums: no whole number of pages

// A matrix: where it lies, and the steps from one row and one column to the next, of which one is 1.
struct Table {
    const float* at;
    int64_t row, column;
};

// Whether all numbers were such as the unit takes: real ones, of which no product of parts overflows.
struct Fits {
    __mmask16 amiss = 0;

    void take(__m512 numbers) {
        amiss |= _mm512_cmp_ps_mask(_mm512_abs_ps(numbers), _mm512_set1_ps(0x1p40f), _CMP_NLE_UQ);
    }
};

inline __mmask16 first(int64_t count) { return count >= 16 ? 0xffff : count <= 0 ? 0 : (1u << count) - 1; }

// 16 rows, of 16 columns each, times factor; 0 where the matrix has none.
inline void square(const Table& matrix, int64_t row, int64_t rows, int64_t column, int64_t columns, float factor,
                   Fits& fits, __m512* to) {
    const bool along = matrix.column == 1;
    const int64_t lines = (along ? rows - row : columns - column), step = along ? matrix.row : matrix.column;
    const __mmask16 mask = first(along ? columns - column : rows - row);
    const float* from = matrix.at + row * matrix.row + column * matrix.column;
    Vec<float> held[kStrip];
    for (int64_t i = 0; i < kStrip; ++i) {
        held[i] = Vec<float>{};
        if (i >= lines) continue;
        const __m512 numbers = _mm512_maskz_loadu_ps(mask, from + i * step) * factor;
        fits.take(numbers);
        held[i] = (Vec<float>)numbers;
    }
    if (!along) turn<float>(held);
    for (int64_t i = 0; i < kStrip; ++i) to[i] = (__m512)held[i];
}

// The left side's 32 rows from `row` on, and the right side's 32 columns: tiles of 32 of the depth, one after the other.
void lay_left(const Table& left, int64_t row, int64_t rows, int64_t from, int64_t to, float factor, Fits& fits,
              char* tiles) {
    __m512 one[kStrip], other[kStrip];
    for (int64_t k = from; k < to; k += kSome)
        for (int64_t half = 0; half < 2; ++half, tiles += kThree) {
            square(left, row + half * kStrip, rows, k, to, factor, fits, one);
            square(left, row + half * kStrip, rows, k + kStrip, to, factor, fits, other);
            for (int64_t i = 0; i < kStrip; ++i) put_pairs(one[i], other[i], tiles + i * 64);
        }
}
void lay_right(const Table& right, int64_t column, int64_t columns, int64_t from, int64_t to, Fits& fits, char* tiles) {
    __m512 one[kStrip], other[kStrip];
    for (int64_t k = from; k < to; k += kSome)
        for (int64_t half = 0; half < 2; ++half, tiles += kThree) {
            square(right, k, to, column + half * kStrip, columns, 1, fits, one);
            square(right, k + kStrip, to, column + half * kStrip, columns, 1, fits, other);
            for (int64_t i = 0; i < kStrip; ++i) put_pairs(one[i], other[i], tiles + i * 64);
        }
}

struct Call {
    int64_t rows, columns, depth;
    Table left, right;
    const float* bias;
    float factor;
    float* out;
    int64_t stride;
};

// Rows of sums from `row` on, written or added to what stands there.
void write(const Call& call, int64_t row, int64_t column, int64_t end, bool add, const float* sums) {
    const __m512 back = _mm512_set1_ps(1 / call.factor);
    for (int64_t i = 0; i < std::min(kSome, call.rows - row); ++i, sums += kAcross) {
        float* to = call.out + (row + i) * call.stride;
        for (int64_t n = column; n < end; n += kStrip) {
            const __mmask16 mask = first(end - n);
            __m512 found = _mm512_loadu_ps(sums + n - column) * back;
            if (add)
                found += _mm512_maskz_loadu_ps(mask, to + n);
            else if (call.bias)
                found += _mm512_maskz_loadu_ps(mask, call.bias + n);
            _mm512_mask_storeu_ps(to + n, mask, found);
        }
    }
}

// C (16 M × 16 N) = A · B, whose depth is 32 times `chunks`; what of the right side comes next is fetched meanwhile.
template <int M, int N>
inline void multiply(int64_t chunks, const char* left, const char* right, float* c) {
    constexpr int64_t kStride = kAcross * sizeof(float), kLines = kBoth / (6 * 64);
    const char* ahead = right + kBoth;
    tiles::written();
    _tile_zero(0);
    if constexpr (N == 2) _tile_zero(1);
    if constexpr (M == 2) _tile_zero(2);
    if constexpr (M == 2 && N == 2) _tile_zero(3);
    auto fetch = [&]() __attribute__((always_inline)) {
        for (int64_t i = 0; i < kLines; ++i) _mm_prefetch(ahead + i * 64, _MM_HINT_T0);
        ahead += kLines * 64;
    };
    const dot::Chunk<M, N, decltype(fetch)> chunk{kThree, kThree, fetch};
    for (int64_t k = 0; k < chunks; ++k, left += kBoth, right += kBoth) {
        chunk.load_left(left + 2 * kTile), chunk.load_right(right);
        chunk.small_ones(left, right);
        chunk.last();
        fetch();
    }
    _tile_stored(0, c, kStride);
    if constexpr (N == 2) _tile_stored(1, c + kStrip, kStride);
    if constexpr (M == 2) _tile_stored(2, c + kStrip * kAcross, kStride);
    if constexpr (M == 2 && N == 2) _tile_stored(3, c + kStrip * kAcross + kStrip, kStride);
}
inline void multiply(bool two_rows, bool two_columns, int64_t chunks, const char* left, const char* right, float* c) {
    if (two_rows)
        two_columns ? multiply<2, 2>(chunks, left, right, c) : multiply<2, 1>(chunks, left, right, c);
    else
        two_columns ? multiply<1, 2>(chunks, left, right, c) : multiply<1, 1>(chunks, left, right, c);
}

// Whether all numbers were such as the unit takes; else what was written is of no use.
bool multiply_all(const Call& call) {
    const tiles::Held unit(true);
    Fits fits;
    const int64_t blocks = std::max<int64_t>(1, (call.depth + kDepth - 1) / kDepth);
    const int64_t deep = (call.depth + blocks * kSome - 1) / (blocks * kSome) * kSome, panel = deep / kSome * kBoth;
    dot::Buffer<char> left(panel), right(panel * (kColumns / kSome));
    dot::Buffer<float> sums(kSome * kAcross);
    for (int64_t column = 0; column < call.columns; column += kColumns) {
        const int64_t end = std::min(call.columns, column + kColumns);
        for (int64_t from = 0; from < call.depth; from += deep) {
            const int64_t to = std::min(call.depth, from + deep), chunks = (to - from + kSome - 1) / kSome;
            for (int64_t n = column; n < end; n += kSome)
                lay_right(call.right, n, end, from, to, fits, right.at + (n - column) / kSome * panel);
            for (int64_t row = 0; row < call.rows; row += kSome) {
                lay_left(call.left, row, call.rows, from, to, call.factor, fits, left.at);
                if (fits.amiss) return false;
                for (int64_t n = column; n < end; n += kSome)
                    multiply(row + kStrip < call.rows, n + kStrip < end, chunks, left.at,
                             right.at + (n - column) / kSome * panel, sums.at + n - column);
                write(call, row, column, end, from > 0, sums.at);
            }
        }
    }
    return true;
}

}  // namespace

extern "C" bool matrix_unit() { return tiles::granted(); }

// out (rows × columns) = left · right [+ bias], where the left side is multiplied by `factor`, a power of two, for the
// product and its result divided by it. False where some number was none that the unit takes.
extern "C" bool matrix_product(int64_t rows, int64_t columns, int64_t depth, const float* left, int64_t left_row,
                               int64_t left_column, const float* right, int64_t right_row, int64_t right_column,
                               const float* bias, float factor, float* out, int64_t threads) {
    std::atomic<bool> fits{true};
    // Each thread has some rows or some columns; the order in which a sum is added up does not depend on it.
    const bool of_rows = rows > columns;
    loops::share(of_rows ? rows : columns, kSome, threads, rows * columns * depth, [&](int64_t begin, int64_t end) {
        Call call{rows,     columns, depth, {left, left_row, left_column}, {right, right_row, right_column}, bias, factor,
                  out, columns};
        if (of_rows) {
            call.rows = end - begin, call.left.at += begin * left_row, call.out += begin * columns;
        } else {
            call.columns = end - begin, call.right.at += begin * right_column, call.out += begin;
            if (bias) call.bias += begin;
        }
        if (!multiply_all(call)) fits = false;
    });
    return fits;
}

#else

extern "C" bool matrix_unit() { return false; }

#endif
