// How half.cpp attends from one block of queries.
//
// A block takes its scores of up to 1,024 keys and their maxima, the weights, and the products with values one after
// the other. Only maxima are looked for while the unit is at work, of the groups before; weights made then gain nothing
// (half were made while values were read with the others: 6 % slower), since half of the vector unit rests meanwhile.
// What is held between is more than the first cache has. Weights from a few scores at once, below the maximum of
// the first keys, were faster by a sixth, but err up to 4 % more: below a row's own maximum its largest weight is 1,
// which rounding to bfloat16 leaves alone. More keys come in blocks, with the running maximum and sum of Milakov &
// Gimelshein (2018).

#pragma once

#include "dot/amx/half_pack.hpp"

#ifdef REGARD_HALF_BY_TILES

#include <cmath>

namespace {

#define REGARD_ALWAYS __attribute__((always_inline))
#define REGARD_INLINE inline REGARD_ALWAYS
#define REGARD_ALONE __attribute__((noinline))  // among others' its registers would not suffice

// The keys that each of kQueries queries attends to, from start to before stop.
struct Visible {
    int64_t start[kQueries], stop[kQueries];
    int64_t first, last;       // what any of them attends to
    int64_t all_from, all_to;  // what all of them attend to

    Visible(const Call& call, int64_t query, int64_t count, int64_t keys)
        : first(keys), last(0), all_from(0), all_to(keys) {
        if (query + call.offset + count - 1 <= call.before && query + call.offset + call.after + 1 >= keys) {
            std::fill_n(start, count, 0), std::fill_n(stop, count, keys);  // all attend to all
            first = 0, last = keys;
            return;
        }
        for (int64_t row = 0; row < count; ++row) {
            const int64_t at = query + row + call.offset;
            start[row] = std::min(std::max<int64_t>(at - call.before, 0), keys);
            stop[row] = std::max(std::min(at + call.after + 1, keys), start[row]);
            if (start[row] < stop[row]) first = std::min(first, start[row]), last = std::max(last, stop[row]);
            all_from = std::max(all_from, start[row]), all_to = std::min(all_to, stop[row]);
        }
    }
    bool is_whole(int64_t begin, int64_t end) const { return all_from <= begin * kKeys && end * kKeys <= all_to; }
};

// What a query attends to of some groups of keys: keys from low to before high, which are in groups from first to before last.
struct Part {
    int64_t low, high, first, last;

    explicit Part(int64_t groups) : low(0), high(groups * kKeys), first(0), last(groups) {}  // all
    Part(const Visible& visible, int64_t row, int64_t begin, int64_t end) {
        const int64_t size = (end - begin) * kKeys;
        low = std::min(std::max<int64_t>(visible.start[row] - begin * kKeys, 0), size);
        high = std::min(std::max(visible.stop[row] - begin * kKeys, low), size);
        first = low / kKeys, last = low < high ? up(high, kKeys) : first;
    }
    uint32_t of(int64_t group) const {
        if (group < first || group >= last) return 0;
        const int64_t before = low - group * kKeys, after = (group + 1) * kKeys - high;
        return (before > 0 ? ~0u << before : ~0u) & (after > 0 ? ~0u >> after : ~0u);
    }
};

template <int kParts>
struct Block {
    const Call& call;
    const Places<kParts>& places;
    const Visible& visible;
    const int64_t count;  // of queries
    const char *keys, *values;
    char* own;
    const char* queries;  // tiles of 16 of them and 32 dims, whose rows are so many bytes apart
    int64_t query_stride = 64, next_strip = kTile, next_chunk = 2 * kTile;
    float scale;                        // to the scores' binary logarithms
    alignas(64) float maximum[kQueries];
    alignas(64) float totals[kQueries];
    __m512 highest[kQueries], sums[kQueries];  // lane by lane

    Block(const Call& call, const Places<kParts>& places, const Visible& visible, int64_t count, const char* packed,
          char* own, double scale)
        : call(call), places(places), visible(visible), count(count), keys(packed),
          values(packed + places.groups * places.key_bytes), own(own), queries(own),
          scale(float(std::abs(scale) * 1.44269504088896340736)) {}

    float* scores_of(int64_t row) const {
        return reinterpret_cast<float*>(own + places.scores_at) + row * places.scores_stride;
    }
    float* context_of(int64_t row) const {
        return reinterpret_cast<float*>(own + places.context_at) + row * places.context_stride;
    }
    // A row's weights lie where its scores were, which are in the first cache by then.
    char* weights_of(int64_t row) const { return reinterpret_cast<char*>(scores_of(row)); }

    // --- scores ---

    // The highest scores of kNear groups that all attend to, found row by row while the unit makes others.
    struct Maxima {
        const float* from;
        int64_t stride;
        __m512* highest;
        int64_t left;

        REGARD_INLINE void some(int64_t rows) {
            if (left < rows) return;
            left -= rows;
            for (; rows > 0; --rows, ++highest, from += stride) {
                __m512 found = *highest;
                for (int64_t i = 0; i < 2 * kNear; ++i)
                    found = _mm512_max_ps(_mm512_load_ps(from + i * kLanes), found);
                *highest = found;
            }
        }
        REGARD_INLINE void rest() {
            while (left > 0) some(1);
        }
    };

    // Of some groups of keys, and the highest lane by lane: a few groups' are compared while they are near.
    REGARD_ALONE void score(int64_t begin, int64_t end) {
        std::fill(highest, highest + kQueries, _mm512_set1_ps(-INFINITY));
        tiles::written();
        const bool is_held = is_short();
        if (is_held) hold_queries();
        const char* key = keys + begin * places.key_bytes;
        float* to = scores_of(0);
        Maxima before{nullptr, places.scores_stride, nullptr, 0};
        for (int64_t group = begin; group < end; group += kNear) {
            const int64_t size = std::min(kNear, end - group);
            for (int64_t i = 0; i < size; ++i, key += places.key_bytes, to += kKeys)
                if (is_held)
                    score_held(key, to, before);
                else
                    score_all(key, to, before);
            before.rest();
            tiles::written();
            if (size == kNear && visible.is_whole(group, group + kNear))
                before = {to - size * kKeys, places.scores_stride, highest, count};
            else
                take_maxima(group, size, to - size * kKeys);
            tiles::written();
        }
        before.rest();
    }
    // Queries of 33 to 64 dims stay in tiles: half as many loads.
    bool is_short() const { return kParts == 1 && places.chunks == 2; }
    // Of 64 dims, side by side, they are taken as they are.
    void take_queries(const uint16_t* from, int64_t stride) {
        queries = reinterpret_cast<const char*>(from);
        query_stride = 2 * stride, next_strip = 16 * query_stride, next_chunk = 64;
    }
    void hold_queries() const {
        REGARD_LOAD(4, queries, query_stride);
        REGARD_LOAD(5, queries + next_strip, query_stride);
        REGARD_LOAD(6, queries + next_chunk, query_stride);
        REGARD_LOAD(7, queries + next_chunk + next_strip, query_stride);
    }
    REGARD_INLINE void score_held(const char* key, float* to, Maxima& before) const {
        for (int half = 0; half < 2; ++half, key += kTile, to += kLanes) {
            _tile_zero(0);
            _tile_zero(1);
            REGARD_LOAD(2, key, 64);
            REGARD_LOAD(3, key + 2 * kTile, 64);
            REGARD_PRODUCT(0, 4, 2);
            before.some(2);
            REGARD_PRODUCT(1, 5, 2);
            before.some(2);
            REGARD_PRODUCT(0, 6, 3);
            before.some(2);
            REGARD_PRODUCT(1, 7, 3);
            before.some(2);
            _tile_stored(0, to, places.scores_stride * 4);
            _tile_stored(1, to + 16 * places.scores_stride, places.scores_stride * 4);
        }
    }
    REGARD_INLINE void score_all(const char* key, float* to, Maxima& before) const {
        const char* query = own;
        zero();
        for (int64_t chunk = 0; chunk < places.chunks; ++chunk) {
            auto aside = [&]() REGARD_ALWAYS { before.some(1); };
            add_products(query, key, 64, aside);
            if (kParts == 2) {  // one side changes at a time
                add_products<false, true>(query, key + 2 * kTile, 64, aside);
                add_products<true, false>(query + 2 * kTile, key + 2 * kTile, 64, aside);
                add_products<false, true>(query + 2 * kTile, key, 64, aside);
            }
            query += kParts * 2 * kTile, key += kParts * 2 * kTile;
        }
        store(to, places.scores_stride);
    }
    // A NaN is passed over.
    REGARD_INLINE void take_maxima(int64_t group, int64_t size, const float* from) {
        const bool is_whole = size == kNear && visible.is_whole(group, group + kNear);
        for (int64_t row = 0; row < count; ++row, from += places.scores_stride) {
            __m512 found = highest[row];
            if (is_whole) {
                for (int64_t i = 0; i < 2 * kNear; ++i)
                    found = _mm512_max_ps(_mm512_load_ps(from + i * kLanes), found);
            } else {
                const Part part(visible, row, group, group + size);
                for (int64_t i = 0; i < 2 * size; ++i)
                    found = _mm512_mask_max_ps(found, __mmask16(part.of(i / 2) >> i % 2 * kLanes),
                                               _mm512_load_ps(from + i * kLanes), found);
            }
            highest[row] = found;
        }
    }

    // Each query's highest score.
    void find_maxima(float* found) {
        for (int64_t row = 0; row < kQueries; row += kLanes) {
            __m512i* each = reinterpret_cast<__m512i*>(highest + row);
            transpose(each);
            __m512 most = _mm512_castsi512_ps(each[0]);
            for (int64_t i = 1; i < kLanes; ++i) most = _mm512_max_ps(_mm512_castsi512_ps(each[i]), most);
            _mm512_store_ps(found + row, most);
        }
    }
    // A query's highest score so far; what was added up below another is brought down to it.
    REGARD_INLINE void raise(int64_t row, float found) {
        if (!(found > maximum[row])) return;
        if (maximum[row] != -INFINITY) {
            const __m512 factor = two_to_the<true>(_mm512_set1_ps((maximum[row] - found) * scale));
            sums[row] *= factor;
            float* context = context_of(row);
            for (int64_t c = 0; c < places.context_stride; c += kLanes)
                _mm512_store_ps(context + c, _mm512_load_ps(context + c) * factor);
        }
        maximum[row] = found;
    }

    // --- weights ---

    // Of some groups of keys, one row of a tile for each query and group, 0 where it attends to none. Rows of weights that
    // no query has may hold anything: they give rows of the context that none has either.
    REGARD_ALONE void weigh(int64_t begin, int64_t end) {
        alignas(64) float found[kQueries];
        find_maxima(found);
        const __m512 factor = _mm512_set1_ps(scale);
        const int64_t groups = end - begin;
        const bool is_whole = visible.is_whole(begin, end);
        for (int64_t row = 0; row < count; ++row) {
            raise(row, found[row]);
            const float* from = scores_of(row);
            char* to = weights_of(row);
            // Who saw nothing yet has no maximum, and no weights either.
            const __m512 top = _mm512_set1_ps(maximum[row] == -INFINITY ? 0 : maximum[row] * scale);
            __m512 total[2] = {sums[row], _mm512_setzero_ps()};  // a sum waits for the one before
            const Part part = is_whole ? Part(groups) : Part(visible, row, begin, end);
            const int64_t whole_from = up(part.low, kKeys), whole_to = part.high / kKeys;
            int64_t group = 0;
            auto some = [&](int64_t until) REGARD_ALWAYS {
                for (; group < until; ++group, from += kKeys, to += kParts * 64)
                    weigh<false>(from, factor, top, part.of(group), total[0], to);
            };
            some(std::min(whole_from, groups));
            for (; group + 2 <= whole_to; group += 2, from += 2 * kKeys, to += 2 * kParts * 64) {
                weigh<true>(from, factor, top, ~0u, total[0], to);
                weigh<true>(from + kKeys, factor, top, ~0u, total[1], to + kParts * 64);
            }
            some(groups);
            sums[row] = total[0] + total[1];
        }
    }
    template <bool kWhole>
    static REGARD_INLINE void weigh(const float* from, __m512 factor, __m512 top, uint32_t visible, __m512& total,
                                    char* to) {
        __m512 weights[2];
        __m512i words[2];
        for (int i = 0; i < 2; ++i) {
            weights[i] = two_to_the<kParts == 2>(_mm512_fmsub_ps(_mm512_load_ps(from + i * kLanes), factor, top));
            if (!kWhole) weights[i] = _mm512_maskz_mov_ps(__mmask16(visible >> 16 * i), weights[i]);
            words[i] = _mm512_castps_si512(weights[i]);
        }
        if (kParts == 1) {
            const __m512i packed = halves(words[0], words[1]);
            _mm512_store_si512(to, packed);
            total = _mm512_dpbf16_ps(total, (__m512bh)packed, (__m512bh)_mm512_set1_epi16(0x3f80));
        } else {
            __m512i rest[2];
            for (int i = 0; i < 2; ++i) {
                total += weights[i];
                words[i] = _mm512_add_epi32(words[i], _mm512_set1_epi32(0x8000));
                const __m512i first = _mm512_and_si512(words[i], _mm512_set1_epi32(0xffff0000));
                rest[i] = _mm512_castps_si512(weights[i] - _mm512_castsi512_ps(first));
            }
            _mm512_store_si512(to, halves(words[0], words[1]));
            _mm512_store_si512(to + 64, halves(rest[0], rest[1]));
        }
    }

    // --- the context ---

    // Adds the values of some groups, weighed, to the context.
    REGARD_ALONE void read(int64_t begin, int64_t end, bool is_first) const {
        tiles::written();
        const int64_t stride = places.scores_stride * 4;
        for (int64_t slice = 0; slice < places.slices; ++slice) {
            float* context = context_of(0) + slice * 32;
            if (is_first)
                zero();
            else
                load(context, places.context_stride);
            for (int64_t group = begin; group < end; ++group) {
                const char* weights = weights_of(0) + (group - begin) * kParts * 64;
                const char* value = values + group * places.value_bytes + slice * kParts * 2 * kTile;
                if (kParts == 2) {  // the product of both lower parts is below float32's precision
                    add_products(weights, value + 2 * kTile, stride);
                    add_products<false, true>(weights, value, stride);
                    add_products<true, false>(weights + 64, value, stride);
                } else {
                    add_products(weights, value, stride);
                }
            }
            store(context, places.context_stride);
        }
    }

    void run() {
        for (int64_t row = 0; row < kQueries; ++row) maximum[row] = -INFINITY, sums[row] = _mm512_setzero_ps();
        const int64_t from = visible.first / kKeys, to = up(visible.last, kKeys);
        for (int64_t begin = from; begin < to; begin += kGroups) {
            const int64_t end = std::min(begin + kGroups, to);
            score(begin, end);
            weigh(begin, end);
            read(begin, end, begin == from);
        }
        for (int64_t row = 0; row < kQueries; row += kLanes)
            _mm512_store_ps(totals + row,
                            (__m512)loops::totals<float>(reinterpret_cast<loops::Vec<float>*>(sums + row)));
    }

    // Divides by the sums and writes rows, and the logarithms of the sums if somebody wants them.
    void finish(uint16_t* context, float* logsumexp) const {
        uint32_t none = 0;
        for (int64_t row = 0; row < count; ++row, context += call.width) {
            // A fully masked query gets a zero context, and so does one whose visible scores are all −inf.
            const bool is_fully_masked = visible.start[row] == visible.stop[row];
            const bool reads = !is_fully_masked && (maximum[row] != -INFINITY || std::isnan(totals[row]));
            none |= uint32_t(!reads) << row;
            const __m512 inverse = _mm512_set1_ps(1 / totals[row]);
            const float* from = context_of(row);
            const __mmask16 mask = reads ? 0xffff : 0;
            for (int64_t c = 0; c < call.width; c += 32) {
                const __m512 low = _mm512_maskz_mul_ps(mask, _mm512_load_ps(from + c), inverse);
                const __m512 high = _mm512_maskz_mul_ps(mask, _mm512_load_ps(from + c + kLanes), inverse);
                __m512i words;
                if (kParts == 1)
                    words = (__m512i)_mm512_cvtne2ps_pbh(high, low);
                else
                    words = _mm512_inserti64x4(
                        _mm512_castsi256_si512(_mm512_cvtps_ph(low, _MM_FROUND_TO_NEAREST_INT)),
                        _mm512_cvtps_ph(high, _MM_FROUND_TO_NEAREST_INT), 1);
                const int64_t left = call.width - c;
                _mm512_mask_storeu_epi16(context + c, left >= 32 ? ~0u : (1u << left) - 1, words);
            }
        }
        for (int64_t row = 0; logsumexp && row < count; row += kLanes) {
            __m512 logs = logarithm(_mm512_load_ps(totals + row)) + _mm512_load_ps(maximum + row) * scale * kLogTwo;
            logs = _mm512_mask_mov_ps(logs, __mmask16(none >> row), _mm512_set1_ps(-INFINITY));
            _mm512_mask_storeu_ps(logsumexp + row, count - row >= 16 ? 0xffff : (1 << (count - row)) - 1, logs);
        }
    }
};

}  // namespace

#endif
