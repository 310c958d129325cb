// What half.cpp is made of: its call, numbers in vectors, tiles, and how queries, keys and values are laid out in them.

#pragma once

#include "dot/amx/tiles.hpp"

// Half types are 16 bits to it. Query i attends to the keys i + offset − before … i + offset + after.
using Call = abi::HalfForward<uint16_t>;

#if defined(REGARD_HAS_TILES) && defined(__AVX512BF16__)

#define REGARD_HALF_BY_TILES

namespace {

using tiles::kTile;

constexpr int64_t kKeys = 32, kQueries = 32;  // two tiles of each
constexpr int64_t kGroups = 32, kNear = 2;    // groups of kKeys whose scores are held, and are handled together
constexpr int64_t kLanes = 16;
constexpr float kLogTwo = 0.693147180559945309f;

inline int64_t up(int64_t size, int64_t step) { return (size + step - 1) / step; }

// --- numbers --------------------------------------------------------------------------------------------------------

// 2^x by a polynomial (minimax, of relative error 7e-5 or 7e-8) of the fraction above the next lower whole number; 0 for −inf, NaN
// of NaN. The coarse one is greater by half of bfloat16's last digit: its first 16 bits are then what rounding gives.
template <bool kFine>
inline __m512 two_to_the(__m512 x) {
    constexpr float coarse[] = {0.999925219f + 0x1p-8f, 0.69583354f, 0.226067155f, 0.0780245226f};
    constexpr float fine[] = {0.999999925f,  0.693153073f,   0.240153617f,
                              0.0558263181f, 0.00898934009f, 0.00187757668f};
    constexpr int terms = kFine ? 6 : 4;
    const float* factors = kFine ? fine : coarse;
    const __m512 rest = _mm512_reduce_ps(x, 1);
    __m512 value = _mm512_set1_ps(factors[terms - 1]);
#pragma GCC unroll 8
    for (int i = terms - 2; i >= 0; --i) value = _mm512_fmadd_ps(value, rest, _mm512_set1_ps(factors[i]));
    return _mm512_scalef_ps(value, x);
}

// The first halves of 32 numbers, those of `odd` behind those of `even`.
inline __m512i halves(__m512i even, __m512i odd) {
    const __m512i upper = _mm512_set4_epi32(0x0f0e0f0e, 0x0b0a0b0a, 0x07060706, 0x03020302);
    return _mm512_mask_shuffle_epi8(odd, 0x3333333333333333, even, upper);
}

// ln x for x > 0, by the series of artanh about √2.
inline __m512 logarithm(__m512 x) {
    __m512 exponent = _mm512_getexp_ps(x);
    __m512 mantissa = _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
    const __m512 root = _mm512_set1_ps(1.41421356f);
    __m512 z = (mantissa - root) / (mantissa + root), square = z * z;
    __m512 series = 2 + square * (2.0f / 3 + square * (2.0f / 5 + square * (2.0f / 7 + square * (2.0f / 9))));
    return (exponent + 0.5f) * kLogTwo + z * series;
}

inline __m512 widened(__m256i words) {  // bfloat16 to float32
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
}

// 32 numbers as bfloat16: themselves, or both parts of float16. The lower part of inf is NaN.
template <int kParts>
inline void split(__m512i words, __m512i* parts) {
    parts[0] = words;
    if constexpr (kParts == 2) {
        __m512 low = _mm512_cvtph_ps(_mm512_castsi512_si256(words));
        __m512 high = _mm512_cvtph_ps(_mm512_extracti64x4_epi64(words, 1));
        __m512i first = (__m512i)_mm512_cvtne2ps_pbh(high, low);
        __m512 low_first = widened(_mm512_castsi512_si256(first));
        __m512 high_first = widened(_mm512_extracti64x4_epi64(first, 1));
        parts[0] = first;
        parts[1] = (__m512i)_mm512_cvtne2ps_pbh(high - high_first, low - low_first);
    }
}

// 32 numbers of a row, 0 past `count`.
inline __m512i row_of(const uint16_t* from, int64_t stride, int64_t count) {
    if (count <= 0) return _mm512_setzero_si512();
    if (stride == 1) return _mm512_maskz_loadu_epi16(count >= 32 ? ~0u : (1u << count) - 1, from);
    alignas(64) uint16_t words[32] = {0};
    for (int64_t i = 0; i < std::min<int64_t>(count, 32); ++i) words[i] = from[i * stride];
    return _mm512_load_si512(words);
}

// 16 × 16 numbers of 32 bits, rows for columns.
inline void transpose(__m512i* r) {
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4)
        for (int j = 0; j < 2; ++j) {
            r[i + 2 * j] = _mm512_unpacklo_epi64(t[i + j], t[i + j + 2]);
            r[i + 2 * j + 1] = _mm512_unpackhi_epi64(t[i + j], t[i + j + 2]);
        }
    for (int i = 0; i < 4; ++i) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 8; ++i) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    }
}

// --- tiles ----------------------------------------------------------------------------------------------------------

inline void zero() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
}

// 32 rows of 32 float numbers, as tiles 0 … 3.
inline void load(const float* from, int64_t stride) {
    const float* lower = from + 16 * stride;
    REGARD_LOAD(0, from, stride * 4);
    REGARD_LOAD(1, from + 16, stride * 4);
    REGARD_LOAD(2, lower, stride * 4);
    REGARD_LOAD(3, lower + 16, stride * 4);
}
inline void store(float* to, int64_t stride) {
    float* lower = to + 16 * stride;
    _tile_stored(0, to, stride * 4);
    _tile_stored(1, to + 16, stride * 4);
    _tile_stored(2, lower, stride * 4);
    _tile_stored(3, lower + 16, stride * 4);
}

// Tiles 0 … 3 += (4, 5) × (6, 7), of 32 rows from a, `stride` bytes apart, and of two tiles that lie at b; what is not
// new is still in its tiles. The vectors do what is aside() meanwhile, twice.
template <bool kNewA = true, bool kNewB = true, typename Aside>
inline void add_products(const char* a, const char* b, int64_t stride, const Aside& aside) {
    if (kNewA) REGARD_LOAD(4, a, stride);
    if (kNewB) REGARD_LOAD(6, b, 64);
    if (kNewA) REGARD_LOAD(5, a + 16 * stride, stride);
    if (kNewB) REGARD_LOAD(7, b + kTile, 64);
    REGARD_PRODUCT(0, 4, 6);
    REGARD_PRODUCT(1, 4, 7);
    aside();
    REGARD_PRODUCT(2, 5, 6);
    REGARD_PRODUCT(3, 5, 7);
    aside();
}
template <bool kNewA = true, bool kNewB = true>
inline void add_products(const char* a, const char* b, int64_t stride) {
    add_products<kNewA, kNewB>(a, b, stride, [] {});
}

// --- where things lie -----------------------------------------------------------------------------------------------

// Tiles lie in twos, as `add_products` takes them: of rows on the left (queries, weights) and columns on the right
// (keys, values). A tile on the right has pairs of numbers from two rows side by side.
template <int kParts>
struct Places {
    int64_t chunks, slices, groups;  // of 32 dims, of 32 values' dims, of kKeys keys
    int64_t key_bytes, value_bytes;  // of a group of keys
    int64_t scores_stride, context_stride;  // of a row, in numbers
    int64_t scores_at, context_at, thread_bytes, head_bytes;  // a thread's own begins with its queries

    explicit Places(const Call& call) {
        chunks = up(call.dim, 32), slices = up(call.width, 32), groups = up(call.keys, kKeys);
        key_bytes = 2 * chunks * kParts * kTile, value_bytes = 2 * slices * kParts * kTile;
        head_bytes = groups * (key_bytes + value_bytes);
        // Neighbours are not a power of 2 apart, which would crowd the cache.
        scores_stride = std::min(groups, kGroups) * kKeys + kLanes;
        context_stride = slices * 32;
        scores_at = 2 * chunks * kParts * kTile;
        context_at = scores_at + kQueries * scores_stride * 4;
        thread_bytes = context_at + kQueries * context_stride * 4;
    }
};

// Queries as they are: rows of 32 dims.
template <int kParts>
void pack_queries(const Call& call, const uint16_t* query, int64_t rows, int64_t chunks, bool negative, char* to) {
    const __m512i sign = _mm512_set1_epi16(negative ? int16_t(0x8000) : 0);
    const int64_t along = call.query_strides[2], across = call.query_strides[3], dim = call.dim;
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
        for (int64_t row = 0; row < kQueries; ++row) {
            const uint16_t* from = query + row * along + chunk * 32 * across;
            __m512i words = row_of(from, across, row < rows ? dim - chunk * 32 : 0), parts[2];
            split<kParts>(_mm512_xor_si512(words, sign), parts);
            for (int part = 0; part < kParts; ++part)
                _mm512_store_si512(to + ((chunk * kParts + part) * 2 + row / 16) * kTile + row % 16 * 64, parts[part]);
        }
}

// One group of keys, transposed: rows are pairs of dims, 16 keys long.
template <int kParts>
void pack_keys(const Call& call, const uint16_t* key, int64_t rows, int64_t chunks, char* to) {
    const int64_t along = call.key_strides[2], across = call.key_strides[3], dim = call.dim;
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
        for (int64_t tile = 0; tile < 2; ++tile) {
            __m512i transposed[2][16];
            for (int64_t row = 0; row < 16; ++row) {
                int64_t at = tile * 16 + row;
                const uint16_t* from = key + at * along + chunk * 32 * across;
                __m512i parts[2];
                split<kParts>(row_of(from, across, at < rows ? dim - chunk * 32 : 0), parts);
                for (int part = 0; part < kParts; ++part) transposed[part][row] = parts[part];
            }
            for (int part = 0; part < kParts; ++part) {
                transpose(transposed[part]);
                for (int row = 0; row < 16; ++row)
                    _mm512_store_si512(to + ((chunk * kParts + part) * 2 + tile) * kTile + row * 64, transposed[part][row]);
            }
        }
}

// One group of keys' values: rows are pairs of keys, 16 dims long. The two are 16 keys apart, as vectors of weights
// are.
template <int kParts>
void pack_values(const Call& call, const uint16_t* value, int64_t rows, int64_t slices, char* to) {
    alignas(64) static constexpr uint16_t order[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                       8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    const __m512i lower = _mm512_load_si512(order), upper = _mm512_add_epi16(lower, _mm512_set1_epi16(16));
    const int64_t along = call.value_strides[2], across = call.value_strides[3], width = call.width;
    for (int64_t slice = 0; slice < slices; ++slice)
        for (int64_t pair = 0; pair < 16; ++pair) {
            __m512i even[2], odd[2];
            const uint16_t* from = value + pair * along + slice * 32 * across;
            int64_t count = width - slice * 32;
            split<kParts>(row_of(from, across, pair < rows ? count : 0), even);
            split<kParts>(row_of(from + 16 * along, across, pair + 16 < rows ? count : 0), odd);
            for (int part = 0; part < kParts; ++part) {
                char* at = to + (slice * kParts + part) * 2 * kTile + pair * 64;
                _mm512_store_si512(at, _mm512_permutex2var_epi16(even[part], lower, odd[part]));
                _mm512_store_si512(at + kTile, _mm512_permutex2var_epi16(even[part], upper, odd[part]));
            }
        }
}

}  // namespace

#endif
