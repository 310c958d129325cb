// What half.cpp is made of: its call, numbers in vectors, tiles, and how queries, keys and values are laid out in them.

#pragma once

#include "loops.hpp"

struct Call {  // half.py's _Call
    int64_t batch, heads, key_heads, queries, keys, dim, width;
    int64_t causal, offset, windowed, left, right, threads;
    int64_t query_strides[4], key_strides[4], value_strides[4];  // in numbers
    double scale;
    const uint16_t *query, *key, *value;
    const int64_t* lengths;  // null: all keys
    uint16_t* context;       // (batch, heads, queries, width), contiguous
    float* logsumexp;        // (batch, heads, queries)
    char* room;              // half_room's bytes, at a multiple of 64
};

#if defined(__AMX_BF16__) && defined(__AVX512BF16__) && defined(__AVX512BW__) && defined(__linux__)

#define REGARD_HAS_TILES

namespace {

constexpr int64_t kTile = 1024;                    // bytes: 16 rows of 64
constexpr int64_t kKeys = 32, kQueries = 32;       // two tiles of each
constexpr int64_t kGroups = 8;                     // groups of kKeys in a block, an even number
constexpr int64_t kWeights = 4;                    // groups whose weights are held
constexpr int64_t kLanes = 16;
constexpr float kLogTwo = 0.693147180559945309f;

inline int64_t up(int64_t size, int64_t step) { return (size + step - 1) / step; }

// --- numbers --------------------------------------------------------------------------------------------------------

// 2^x for x ≤ 0 by a polynomial (minimax, of relative error 7e-5 or 7e-8) of what is past the whole number below;
// 2^-126 for less, NaN of NaN. `more` is added to the mantissa, which is from 1 to 2.
template <bool kFine>
inline __m512 two_to_the(__m512 x, float more) {
    constexpr float coarse[] = {0.999925219f, 0.69583354f, 0.226067155f, 0.0780245226f};
    constexpr float fine[] = {0.999999925f,  0.693153073f,   0.240153617f,
                              0.0558263181f, 0.00898934009f, 0.00187757668f};
    constexpr int terms = kFine ? 6 : 4;
    const float* factors = kFine ? fine : coarse;
    const __m512 magic = _mm512_set1_ps(12582912.0f);  // 1.5 · 2^23: adding it rounds
    x = _mm512_max_ps(_mm512_set1_ps(-126.0f), x);     // the second where one is NaN
    __m512 shifted = _mm512_add_round_ps(x, magic, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    __m512 rest = x - (shifted - magic);
    __m512 value = _mm512_set1_ps(factors[terms - 1]);
#pragma GCC unroll 8
    for (int i = terms - 2; i >= 0; --i)
        value = _mm512_fmadd_ps(value, rest, _mm512_set1_ps(i ? factors[i] : factors[0] + more));
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(value),
                                                _mm512_slli_epi32(_mm512_castps_si512(shifted), 23)));
}

// ln x for x ≥ 1, by the series of artanh about √2.
inline __m512 logarithm(__m512 x) {
    __m512 exponent = _mm512_getexp_ps(x);
    __m512 mantissa = _mm512_getmant_ps(x, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
    const __m512 root = _mm512_set1_ps(1.41421356f);
    __m512 z = (mantissa - root) / (mantissa + root), square = z * z;
    __m512 series = 2 + square * (2.0f / 3 + square * (2.0f / 5 + square * (2.0f / 7 + square * (2.0f / 9))));
    return (exponent + 0.5f) * kLogTwo + z * series;
}

// The first 16 bits of a's lanes and of b's, side by side: pairs as tiles have them.
inline __m512i pairs(__m512 a, __m512 b) {
    return _mm512_mask_blend_epi16(0xAAAAAAAA, _mm512_srli_epi32(_mm512_castps_si512(a), 16), _mm512_castps_si512(b));
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

// What is loaded was stored by ordinary instructions: the compiler may not move those past a load of a tile.
#define REGARD_WRITTEN() asm volatile("" ::: "memory")

struct alignas(64) Configuration {
    uint8_t palette = 1, row = 0, none[14] = {0};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

// Tiles 0 … 3 += (4, 5) × (6, 7), of tiles that lie at a and b; what is not new is still in its tiles. A tile's load
// costs half of its product, and nearly as much where another thread shares the core.
template <bool kNewA = true, bool kNewB = true>
inline void add_products(const char* a, const char* next_a, const char* b) {
    if (kNewA) _tile_loadd(4, a, 64);
    if (kNewB) _tile_loadd(6, b, 64);
    if (kNewA) _tile_loadd(5, next_a, 64);
    if (kNewB) _tile_loadd(7, b + kTile, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

// --- where things lie -----------------------------------------------------------------------------------------------

template <int kParts>
struct Places {
    int64_t chunks, slices, groups;              // of 32 dims, of 16 values' dims (an even number), of kKeys keys
    int64_t key_bytes, value_bytes;              // of a group of keys
    int64_t queries_at, context_at, scores_at, weights_at, thread_bytes, head_bytes;

    explicit Places(const Call& call) {
        chunks = up(call.dim, 32), slices = 2 * up(call.width, 32), groups = up(call.keys, kKeys);
        key_bytes = 2 * chunks * kParts * kTile, value_bytes = slices * kParts * kTile;
        head_bytes = groups * (key_bytes + value_bytes);
        queries_at = 0;
        context_at = queries_at + 2 * chunks * kParts * kTile;
        scores_at = context_at + 2 * slices * kTile;
        weights_at = scores_at + (kGroups + 1) * 4 * kTile;
        thread_bytes = weights_at + kWeights * 2 * kParts * kTile;
    }
};

// One group of keys: rows of 32 dims, tile by tile, parts one after the other.
template <int kParts>
void pack_keys(const Call& call, const uint16_t* key, int64_t rows, int64_t chunks, char* to) {
    for (int64_t half = 0; half < 2; ++half)
        for (int64_t chunk = 0; chunk < chunks; ++chunk)
            for (int64_t part = 0, row = 0; row < 16; ++row, part = 0) {
                int64_t at = half * 16 + row;
                const uint16_t* from = key + at * call.key_strides[2] + chunk * 32 * call.key_strides[3];
                __m512i parts[2];
                split<kParts>(row_of(from, call.key_strides[3], at < rows ? call.dim - chunk * 32 : 0), parts);
                for (; part < kParts; ++part)
                    _mm512_store_si512(to + ((half * chunks + chunk) * kParts + part) * kTile + row * 64, parts[part]);
            }
}

// One group of keys' values, turned: rows are dims, 32 keys long.
template <int kParts>
void pack_values(const Call& call, const uint16_t* value, int64_t rows, int64_t slices, char* to) {
    alignas(64) static constexpr uint16_t order[32] = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                                       8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};
    const __m512i lower = _mm512_load_si512(order), upper = _mm512_add_epi16(lower, _mm512_set1_epi16(16));
    for (int64_t slice = 0; slice < slices; slice += 2) {
        __m512i turned[2][2][16];
        for (int64_t pair = 0; pair < 16; ++pair) {
            __m512i even[2], odd[2];
            const uint16_t* from = value + 2 * pair * call.value_strides[2] + slice * 16 * call.value_strides[3];
            int64_t count = call.width - slice * 16;
            split<kParts>(row_of(from, call.value_strides[3], 2 * pair < rows ? count : 0), even);
            from += call.value_strides[2];
            split<kParts>(row_of(from, call.value_strides[3], 2 * pair + 1 < rows ? count : 0), odd);
            for (int part = 0; part < kParts; ++part) {
                turned[part][0][pair] = _mm512_permutex2var_epi16(even[part], lower, odd[part]);
                turned[part][1][pair] = _mm512_permutex2var_epi16(even[part], upper, odd[part]);
            }
        }
        for (int part = 0; part < kParts; ++part)
            for (int64_t one = 0; one < 2; ++one) {
                transpose(turned[part][one]);
                for (int row = 0; row < 16; ++row)
                    _mm512_store_si512(to + ((slice + one) * kParts + part) * kTile + row * 64, turned[part][one][row]);
            }
    }
}

// Queries, turned: rows are pairs of dims, 16 queries long; two tiles of queries side by side.
template <int kParts>
void pack_queries(const Call& call, const uint16_t* query, int64_t rows, int64_t chunks, char* to) {
    const __m512i sign = _mm512_set1_epi16(call.scale < 0 ? int16_t(0x8000) : 0);
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
        for (int64_t tile = 0; tile < 2; ++tile) {
            __m512i turned[2][16];
            for (int64_t row = 0; row < 16; ++row) {
                int64_t at = tile * 16 + row;
                const uint16_t* from = query + at * call.query_strides[2] + chunk * 32 * call.query_strides[3];
                __m512i parts[2];
                __m512i words = row_of(from, call.query_strides[3], at < rows ? call.dim - chunk * 32 : 0);
                split<kParts>(_mm512_xor_si512(words, sign), parts);
                for (int part = 0; part < kParts; ++part) turned[part][row] = parts[part];
            }
            for (int part = 0; part < kParts; ++part) {
                transpose(turned[part]);
                for (int row = 0; row < 16; ++row)
                    _mm512_store_si512(to + ((chunk * kParts + part) * 2 + tile) * kTile + row * 64, turned[part][row]);
            }
        }
}

}  // namespace

#endif
