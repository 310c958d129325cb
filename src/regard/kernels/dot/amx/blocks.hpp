// Products of tiles of the processor's matrix unit (AMX), for float numbers.
//
// The unit multiplies bfloat16 numbers exactly and adds up in float. A float is the sum of three bfloat16, whose 8 bits
// each are all of its 24, and a product of two is the sum of nine products of parts; the three smallest of these are
// below float's precision and left out, the other six take less time than vectors do. The parts are exact, and so is
// this as vectors are, for numbers from 2^-60 to 2^60 and 0; heads that have others are left to vectors.
//
// A tile of the unit has 16 rows of 16 pairs. Which two numbers are a pair is the same on both sides of a product:
// those that are 16 apart, so that pairs are made of two vectors without moving anything in them.

#pragma once

#include "dot/call.hpp"
#include "dot/pack.hpp"
#include "dot/amx/tiles.hpp"

#if defined(REGARD_HAS_TILES) && defined(REGARD_SHUFFLES)

#define DOT_MATRIX_UNIT

namespace dot {

constexpr int64_t kParts = 3, kBlock = tiles::kTile, kThree = kParts * kBlock;  // bytes of a tile, and of all parts of one

// The three parts of 16 numbers, the upper half of each number's bits. The first is rounded to nearest, so that what
// products leave out is of either sign; 16 bits are left at most, of which the second part has the first 8.
inline void split(__m512 numbers, __m512i* parts) {
    const __m512i upper = _mm512_set1_epi32(0xffff0000);
    __m512i rounded = _mm512_add_epi32(_mm512_castps_si512(numbers), _mm512_set1_epi32(0x8000));
    parts[0] = _mm512_and_si512(rounded, upper);
    numbers = _mm512_sub_ps(numbers, _mm512_castsi512_ps(parts[0]));
    parts[1] = _mm512_and_si512(_mm512_castps_si512(numbers), upper);
    parts[2] = _mm512_castps_si512(_mm512_sub_ps(numbers, _mm512_castsi512_ps(parts[1])));
}

// Rows of pairs of both: one row of the tiles of the three parts. Upper halves of the one become lower ones.
inline void pairs(__m512 one, __m512 other, __m512i* rows) {
    const __m512i halves =
        _mm512_broadcast_i32x4(_mm_setr_epi8(2, 3, 2, 3, 6, 7, 6, 7, 10, 11, 10, 11, 14, 15, 14, 15));
    __m512i first[kParts], second[kParts];
    split(one, first), split(other, second);
    for (int i = 0; i < kParts; ++i)
        rows[i] = _mm512_mask_shuffle_epi8(second[i], 0x3333333333333333, first[i], halves);
}
inline void put_pairs(__m512 one, __m512 other, char* to) {
    __m512i rows[kParts];
    pairs(one, other, rows);
    for (int i = 0; i < kParts; ++i) _mm512_store_si512(to + i * kBlock, rows[i]);
}

// What the vectors do while the unit multiplies: work() takes one step, and says whether it found any. `ticks` is how
// often they are asked; steps are spread evenly over these.
template <typename Work>
struct Aside {
    Work& work;
    int64_t ticks, steps = work.left, credit = 0;

    void some() {
        for (credit += steps; credit >= ticks && work.left > 0; credit -= ticks) work.step();
    }
    void rest() {
        while (work.left > 0) work.step();
    }
};
// Where tiles of three parts lie, the steps between neighbours along the depth and across it, in bytes.
struct Side {
    const char* at;
    int64_t along, across;
};

// C (16 M × 16 N) = A · B, whose depth is 32 times `chunks`. Small products come first: they are added up exactly
// enough beside each other. After each product of tiles `aside` gives the vectors something to do meanwhile; results
// are stored after that, for a store that waits keeps later instructions from starting.
template <int M, int N, typename Work>
inline void multiply(int64_t chunks, const Side& a, const Side& b, float* c, int64_t stride, Work& aside) {
    float* next = c + 16 * stride;
    stride *= sizeof(float);
    tiles::written();
    _tile_zero(0);
    if constexpr (N == 2) _tile_zero(1);
    if constexpr (M == 2) _tile_zero(2);
    if constexpr (M == 2 && N == 2) _tile_zero(3);
    auto left = [&](const char* at) __attribute__((always_inline)) {
        REGARD_LOAD(4, at, 64);
        if constexpr (M == 2) REGARD_LOAD(5, at + a.across, 64);
    };
    auto right = [&](const char* at) __attribute__((always_inline)) {
        REGARD_LOAD(6, at, 64);
        if constexpr (N == 2) REGARD_LOAD(7, at + b.across, 64);
    };
    auto add = [&]() __attribute__((always_inline)) {
        REGARD_PRODUCT(0, 4, 6);
        if constexpr (N == 2) REGARD_PRODUCT(1, 4, 7);
        if constexpr (M == 2) REGARD_PRODUCT(2, 5, 6);
        if constexpr (M == 2 && N == 2) REGARD_PRODUCT(3, 5, 7);
        aside.some();
    };
    const char *one = a.at, *other = b.at;
    for (int64_t k = 0; k < chunks; ++k, one += a.along, other += b.along) {
        left(one + 2 * kBlock), right(other), add();
        left(one + kBlock), add();
        right(other + kBlock), add();
        left(one), add();
        right(other + 2 * kBlock), add();
    }
    one = a.at, other = b.at;
    for (int64_t k = 0; k < chunks; ++k, one += a.along, other += b.along) left(one), right(other), add();
    _tile_stored(0, c, stride);
    if constexpr (N == 2) _tile_stored(1, c + 16, stride);
    if constexpr (M == 2) _tile_stored(2, next, stride);
    if constexpr (M == 2 && N == 2) _tile_stored(3, next + 16, stride);
}

// The products of one chunk of the depth, from fewest loads: results are in registers 0 … 3, left tiles in 4 and 5, right
// ones in 6 and 7. A register is loaded anew as soon as the last product that needs it is under way.
template <int M, int N>
struct Chunk {
    const int64_t left_across, right_across;

#define REGARD_CHUNK inline __attribute__((always_inline)) void
    REGARD_CHUNK load_left(const char* at) const {
        REGARD_LOAD(4, at, 64);
        if constexpr (M == 2) REGARD_LOAD(5, at + left_across, 64);
    }
    REGARD_CHUNK load_right(const char* at) const {
        REGARD_LOAD(6, at, 64);
        if constexpr (N == 2) REGARD_LOAD(7, at + right_across, 64);
    }
    REGARD_CHUNK then_left(const char* at) const {
        REGARD_PRODUCT(0, 4, 6);
        if constexpr (N == 2) REGARD_PRODUCT(1, 4, 7);
        REGARD_LOAD(4, at, 64);
        if constexpr (M == 2) REGARD_PRODUCT(2, 5, 6);
        if constexpr (M == 2 && N == 2) REGARD_PRODUCT(3, 5, 7);
        if constexpr (M == 2) REGARD_LOAD(5, at + left_across, 64);
    }
    REGARD_CHUNK then_right(const char* at) const {
        REGARD_PRODUCT(0, 4, 6);
        if constexpr (M == 2) REGARD_PRODUCT(2, 5, 6);
        REGARD_LOAD(6, at, 64);
        if constexpr (N == 2) REGARD_PRODUCT(1, 4, 7);
        if constexpr (M == 2 && N == 2) REGARD_PRODUCT(3, 5, 7);
        if constexpr (N == 2) REGARD_LOAD(7, at + right_across, 64);
    }
    // All but the last, the product of both first parts; the third part on the left and the first on the right are there.
    REGARD_CHUNK small_ones(const char* left, const char* right) const {
        then_left(left + kBlock);
        then_right(right + kBlock);
        then_left(left);
        then_right(right + 2 * kBlock);
        then_right(right);
    }
    REGARD_CHUNK last() const {
        REGARD_PRODUCT(0, 4, 6);
        if constexpr (N == 2) REGARD_PRODUCT(1, 4, 7);
        if constexpr (M == 2) REGARD_PRODUCT(2, 5, 6);
        if constexpr (M == 2 && N == 2) REGARD_PRODUCT(3, 5, 7);
    }
#undef REGARD_CHUNK
};

// C += A · B, where there are chunks and nothing is done aside. Sums are large from the start, so the order of products
// is that of the fewest loads.
template <int M, int N>
inline void add(int64_t chunks, const Side& a, const Side& b, float* c, int64_t stride) {
    float* next = c + 16 * stride;
    stride *= sizeof(float);
    tiles::written();
    REGARD_LOAD(0, c, stride);
    if constexpr (N == 2) REGARD_LOAD(1, c + 16, stride);
    if constexpr (M == 2) REGARD_LOAD(2, next, stride);
    if constexpr (M == 2 && N == 2) REGARD_LOAD(3, next + 16, stride);
    const Chunk<M, N> chunk{a.across, b.across};
    const char *one = a.at, *other = b.at;
    chunk.load_left(one + 2 * kBlock), chunk.load_right(other);
    for (;;) {
        chunk.small_ones(one, other);
        if (--chunks == 0) break;
        one += a.along, other += b.along;
        chunk.then_left(one + 2 * kBlock), chunk.load_right(other);
    }
    chunk.last();
    _tile_stored(0, c, stride);
    if constexpr (N == 2) _tile_stored(1, c + 16, stride);
    if constexpr (M == 2) _tile_stored(2, next, stride);
    if constexpr (M == 2 && N == 2) _tile_stored(3, next + 16, stride);
}

template <typename Work>
inline void multiply(bool two_rows, bool two_columns, int64_t chunks, const Side& a, const Side& b, float* c,
                     int64_t stride, Work& aside) {
    if (two_rows)
        two_columns ? multiply<2, 2>(chunks, a, b, c, stride, aside) : multiply<2, 1>(chunks, a, b, c, stride, aside);
    else
        two_columns ? multiply<1, 2>(chunks, a, b, c, stride, aside) : multiply<1, 1>(chunks, a, b, c, stride, aside);
}
inline void add(bool two_rows, bool two_columns, int64_t chunks, const Side& a, const Side& b, float* c,
                int64_t stride) {
    if (two_rows)
        two_columns ? add<2, 2>(chunks, a, b, c, stride) : add<2, 1>(chunks, a, b, c, stride);
    else
        two_columns ? add<1, 2>(chunks, a, b, c, stride) : add<1, 1>(chunks, a, b, c, stride);
}

}  // namespace dot

#endif
