// Attention of bfloat16 and float16 by the processor's matrix unit (AMX), forward.
//
// A tile product multiplies bfloat16 numbers and adds up in float32. A float16 number is the sum of two bfloat16 (its
// 11 bits are 8 and 3), so that products of float16 are sums of products of parts, exact as well.
//
// Scores are made the wrong way round, keys by queries: a vector then holds one key's scores for 16 queries, and
// maxima, sums and masks need nothing across a vector. The context is made as values' dims by queries and turned at the
// end. Keys are gone through in blocks, with the running maximum and sum of Milakov & Gimelshein (2018).

#include "half_pack.hpp"

#ifdef REGARD_HAS_TILES

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cmath>

namespace {

// --- a block of queries ---------------------------------------------------------------------------------------------

// The keys that each of kQueries queries sees, from start to before stop.
struct Seen {
    alignas(64) int32_t start[kQueries], stop[kQueries];
    int64_t first, last;        // what any of them sees
    int64_t all_from, all_to;   // what all of them see

    Seen(const Call& call, int64_t query, int64_t keys) {
        first = keys, last = 0, all_from = 0, all_to = keys;
        for (int64_t lane = 0; lane < kQueries; ++lane) {
            int64_t at = query + lane + call.offset, from = 0, to = keys;
            if (query + lane < call.queries) {
                if (call.causal) to = std::min(to, at + 1);
                if (call.windowed) from = std::max(from, at - call.left), to = std::min(to, at + call.right + 1);
                from = std::min(from, keys), to = std::max<int64_t>(to, 0);
                if (from < to) first = std::min(first, from), last = std::max(last, to);
                all_from = std::max(all_from, from), all_to = std::min(all_to, to);
            }
            start[lane] = int32_t(from), stop[lane] = int32_t(to);
        }
    }
};

inline __mmask16 seen_by(const Seen& seen, int64_t tile, int64_t key) {
    const __m512i at = _mm512_set1_epi32(int32_t(key));
    return _mm512_cmple_epi32_mask(_mm512_load_si512(seen.start + 16 * tile), at) &
           _mm512_cmpgt_epi32_mask(_mm512_load_si512(seen.stop + 16 * tile), at);
}

template <int kParts>
struct Block {
    const Call& call;
    const Places<kParts>& places;
    const Seen& seen;
    const char *keys, *values;
    char* own;
    float scale;  // to the scores' binary logarithms
    __m512 maximum[2], sums[2];

    // Scores of one group are left in tiles 0 … 3: keys' rows by queries' lanes.
    void score(int64_t group) const {
        const char* key = keys + group * places.key_bytes;
        const char* query = own + places.queries_at;
        const int64_t half = places.chunks * kParts * kTile;
        zero();
        for (int64_t chunk = 0; chunk < places.chunks; ++chunk) {
            const char *a = key + chunk * kParts * kTile, *b = query + chunk * kParts * 2 * kTile;
            add_products(a, a + half, b);
            if (kParts == 2) {  // one side changes at a time
                add_products<false, true>(a, a + half, b + 2 * kTile);
                add_products<true, false>(a + kTile, a + kTile + half, b + 2 * kTile);
                add_products<false, true>(a + kTile, a + kTile + half, b);
            }
        }
    }

    // Scores lie in a ring, one group longer than a block, as (queries' tile, key, query).
    char* scores_of(int64_t group) const { return own + places.scores_at + group % (kGroups + 1) * 4 * kTile; }

    void keep_scores(int64_t group) const {
        char* to = scores_of(group);
        _tile_stored(0, to, 64);
        _tile_stored(1, to + 2 * kTile, 64);
        _tile_stored(2, to + kTile, 64);
        _tile_stored(3, to + 3 * kTile, 64);
    }

    bool is_whole(int64_t group) const { return seen.all_from <= group * kKeys && (group + 1) * kKeys <= seen.all_to; }

    // The highest score of the block, for each query, beside what it was before.
    void raise(int64_t begin, int64_t end, bool is_first) {
        for (int tile = 0; tile < 2; ++tile) {
            __m512 highest[4];
            for (auto& one : highest) one = maximum[tile];
            for (int64_t group = begin; group < end; ++group) {
                const float* from = reinterpret_cast<const float*>(scores_of(group)) + tile * kKeys * kLanes;
                if (is_whole(group)) {
                    for (int row = 0; row < kKeys; row += 4)
                        for (int i = 0; i < 4; ++i)
                            highest[i] = _mm512_max_ps(_mm512_load_ps(from + (row + i) * kLanes), highest[i]);
                } else {
                    for (int row = 0; row < kKeys; ++row)
                        highest[0] = _mm512_mask_max_ps(highest[0], seen_by(seen, tile, group * kKeys + row),
                                                        _mm512_load_ps(from + row * kLanes), highest[0]);
                }
            }
            __m512 found = _mm512_max_ps(_mm512_max_ps(highest[0], highest[1]), _mm512_max_ps(highest[2], highest[3]));
            if (!is_first && _mm512_cmp_ps_mask(found, maximum[tile], _CMP_NEQ_OQ)) {
                __m512 factor = two_to_the<true>((maximum[tile] - found) * scale, 0);
                sums[tile] *= factor;
                float* context = reinterpret_cast<float*>(own + places.context_at) + tile * 16 * kLanes;
                for (int64_t slice = 0; slice < places.slices; ++slice)
                    for (int row = 0; row < 16; ++row) {
                        float* at = context + (slice * 2 * 16 + row) * kLanes;
                        _mm512_store_ps(at, _mm512_load_ps(at) * factor);
                    }
            }
            maximum[tile] = found;
        }
    }

    char* weights_of(int64_t group) const { return own + places.weights_at + group % kWeights * 2 * kParts * kTile; }

    void weigh(int64_t group, int tile) {
        if (is_whole(group))
            weigh<true>(group, tile);
        else
            weigh<false>(group, tile);
    }

    // Weights of one group for one tile of queries, as a tile of pairs of keys (16 pairs, 16 queries).
    template <bool kWhole>
    void weigh(int64_t group, int tile) {
        const float* from = reinterpret_cast<const float*>(scores_of(group)) + tile * kKeys * kLanes;
        char* to = weights_of(group) + tile * kTile;
        const __m512 factor = _mm512_set1_ps(scale);
        __m512 top = maximum[tile] * scale, total = sums[tile];
        // Who saw nothing yet has no maximum, and no weights either.
        top = _mm512_mask_mov_ps(top, _mm512_cmp_ps_mask(maximum[tile], _mm512_set1_ps(-INFINITY), _CMP_EQ_OQ),
                                 _mm512_setzero_ps());
        for (int pair = 0; pair < 16; ++pair, to += 64) {
            __m512 weights[2];
            for (int i = 0; i < 2; ++i) {
                __m512 score = _mm512_load_ps(from + (2 * pair + i) * kLanes);
                // bfloat16 is cut off, so half of its last place is added.
                weights[i] = two_to_the<kParts == 2>(_mm512_fmsub_ps(score, factor, top), kParts == 2 ? 0 : 0x1p-8f);
                if (!kWhole)
                    weights[i] = _mm512_maskz_mov_ps(seen_by(seen, tile, group * kKeys + 2 * pair + i), weights[i]);
            }
            if (kParts == 1) {
                __m512i packed = pairs(weights[0], weights[1]);
                _mm512_store_si512(to, packed);
                total = _mm512_dpbf16_ps(total, (__m512bh)packed, (__m512bh)_mm512_set1_epi16(0x3f80));
            } else {
                __m512 first[2];
                for (int i = 0; i < 2; ++i) {
                    total += weights[i];
                    __m512i rounded = _mm512_add_epi32(_mm512_castps_si512(weights[i]), _mm512_set1_epi32(0x8000));
                    first[i] = _mm512_castsi512_ps(_mm512_and_si512(rounded, _mm512_set1_epi32(0xffff0000)));
                }
                _mm512_store_si512(to, pairs(first[0], first[1]));
                _mm512_store_si512(to + 2 * kTile, pairs(weights[0] - first[0], weights[1] - first[1]));
            }
        }
        sums[tile] = total;
    }

    static void zero() {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }

    // Adds the values of some groups, weighed, to some slices of the context; the last two slices are left in tiles.
    void add(int64_t first, int64_t last, int64_t begin, int64_t end, bool is_first) const {
        REGARD_WRITTEN();
        for (int64_t slice = first; slice < last; slice += 2) {
            if (slice > first) keep_context(slice);
            const char* context = own + places.context_at + slice * 2 * kTile;
            if (is_first) {
                zero();
            } else {
                _tile_loadd(0, context, 64);
                _tile_loadd(1, context + kTile, 64);
                _tile_loadd(2, context + 2 * kTile, 64);
                _tile_loadd(3, context + 3 * kTile, 64);
            }
            for (int64_t group = begin; group < end; ++group) {
                const char* weights = weights_of(group);
                const char* value = values + group * places.value_bytes + slice * kParts * kTile;
                const char* next = value + kParts * kTile;
                if (kParts == 2) {  // the product of both lower parts is below float32's precision
                    add_products(value + kTile, next + kTile, weights);
                    add_products<true, false>(value, next, weights);
                    add_products<false, true>(value, next, weights + 2 * kTile);
                } else {
                    add_products(value, next, weights);
                }
            }
        }
    }

    void keep_context(int64_t last) const {
        char* context = own + places.context_at + (last - 2) * 2 * kTile;
        _tile_stored(0, context, 64);
        _tile_stored(1, context + kTile, 64);
        _tile_stored(2, context + 2 * kTile, 64);
        _tile_stored(3, context + 3 * kTile, 64);
    }

    // Divides by the sums and writes rows.
    void finish(int64_t count, uint16_t* context, float* logsumexp) {
        for (int tile = 0; tile < 2; ++tile) {
            int64_t lanes = std::min<int64_t>(16, count - 16 * tile);
            if (lanes <= 0) return;
            // Who sees nothing reads 0, and so does one whose visible scores are all −inf.
            const __mmask16 blind = _mm512_cmple_epi32_mask(_mm512_load_si512(seen.stop + 16 * tile),
                                                            _mm512_load_si512(seen.start + 16 * tile));
            const __mmask16 lost = _mm512_cmp_ps_mask(maximum[tile], _mm512_set1_ps(-INFINITY), _CMP_EQ_OQ) &
                                   _mm512_cmp_ps_mask(sums[tile], sums[tile], _CMP_EQ_OQ);
            const __mmask16 none = blind | lost;
            const __m512 total = sums[tile];
            __m512 logs = logarithm(total) + maximum[tile] * scale * kLogTwo;
            logs = _mm512_mask_mov_ps(logs, none, _mm512_set1_ps(-INFINITY));
            _mm512_mask_storeu_ps(logsumexp + 16 * tile, lanes == 16 ? 0xffff : (1 << lanes) - 1, logs);
            const __m512 inverse = _mm512_maskz_div_ps(~none, _mm512_set1_ps(1), total);
            for (int64_t slice = 0; slice * 16 < call.width; ++slice) {
                const float* from = reinterpret_cast<const float*>(own + places.context_at) +
                                    (slice * 2 + tile) * 16 * kLanes;
                __m512i rows[16];
                for (int row = 0; row < 16; ++row) {
                    __m512 one = _mm512_maskz_mul_ps(~none, _mm512_load_ps(from + row * kLanes), inverse);
                    rows[row] = _mm512_castps_si512(one);
                }
                transpose(rows);
                int64_t left = call.width - slice * 16;
                const __mmask16 mask = left >= 16 ? 0xffff : (1 << left) - 1;
                for (int64_t row = 0; row < lanes; ++row) {
                    __m512 one = _mm512_castsi512_ps(rows[row]);
                    __m256i words = kParts == 2 ? _mm512_cvtps_ph(one, _MM_FROUND_TO_NEAREST_INT)
                                                : (__m256i)_mm512_cvtneps_pbh(one);
                    _mm256_mask_storeu_epi16(context + (16 * tile + row) * call.width + slice * 16, mask, words);
                }
            }
        }
    }

    void run() {
        for (int tile = 0; tile < 2; ++tile)
            maximum[tile] = _mm512_set1_ps(-INFINITY), sums[tile] = _mm512_setzero_ps();
        const int64_t from = seen.first / kKeys, to = up(seen.last, kKeys);
        REGARD_WRITTEN();
        for (int64_t group = from; group < std::min(from + kGroups, to); ++group) score(group), keep_scores(group);
        for (int64_t begin = from; begin < to; begin += kGroups)
            go_through(begin, std::min(begin + kGroups, to), from, to);
    }

    // A block of keys. Tiles are multiplied while weights are made: their results are stored after half a group's
    // weights, for a store that waits keeps later instructions from starting. In turns these are the next block's
    // scores and half of the context's slices for the last two groups.
    void go_through(int64_t begin, int64_t end, int64_t from, int64_t to) {
        const int64_t all = places.slices, half = up(all / 2, 2) * 2;
        raise(begin, end, begin == from);
        for (int64_t group = begin; group < end; ++group) {
            const bool more = group + kGroups < to;
            if (more) score(group + kGroups);
            weigh(group, 0);
            if (more) keep_scores(group + kGroups);
            const bool is_odd = (group - begin) % 2;
            const int64_t two = group - 2 - is_odd, first = is_odd ? half : 0, last = is_odd ? all : half;
            const bool is_added = two >= begin && first < last;
            if (is_added) add(first, last, two, two + 2, two == from);
            weigh(group, 1);
            if (is_added) keep_context(last);
        }
        const bool is_odd = (end - begin) % 2;
        const int64_t rest = is_odd ? end - 1 : end - 2;
        if (is_odd && rest > begin && half < all) add(half, all, rest - 2, rest, rest - 2 == from), keep_context(all);
        add(0, all, rest, end, rest == from);
        keep_context(all);
    }
};

// --- the call -------------------------------------------------------------------------------------------------------

template <int kParts>
struct Run {
    const Call& call;
    const Places<kParts> places;

    int64_t length(int64_t item) const { return call.lengths ? call.lengths[item] : call.keys; }

    // Groups of keys of one head of one item, numbered through.
    void pack(int64_t head, int64_t begin, int64_t end, char* to) const {
        const int64_t item = head / call.key_heads, within = head % call.key_heads;
        const int64_t *k = call.key_strides, *v = call.value_strides;
        for (int64_t group = begin; group < std::min(end, up(length(item), kKeys)); ++group) {
            const int64_t key = group * kKeys, rows = length(item) - key;
            pack_keys<kParts>(call, call.key + item * k[0] + within * k[1] + key * k[2], rows, places.chunks,
                              to + group * places.key_bytes);
            pack_values<kParts>(call, call.value + item * v[0] + within * v[1] + key * v[2], rows, places.slices,
                                to + places.groups * places.key_bytes + group * places.value_bytes);
        }
    }

    // One block of queries of one head.
    void attend(int64_t head, int64_t block, const char* packed, char* own) const {
        const int64_t item = head / call.heads, within = head % call.heads, query = block * kQueries;
        const int64_t count = std::min(kQueries, call.queries - query), row = head * call.queries + query;
        const int64_t* q = call.query_strides;
        pack_queries<kParts>(call, call.query + item * q[0] + within * q[1] + query * q[2], count, places.chunks,
                             own + places.queries_at);
        const Seen seen(call, query, length(item));
        Block<kParts> one{call, places, seen, packed, packed + places.groups * places.key_bytes, own,
                          float(std::abs(call.scale) * 1.44269504088896340736), {}, {}};
        one.run();
        one.finish(count, call.context + row * call.width, call.logsumexp + row);
    }

    void all() const {
        const int64_t key_heads = call.batch * call.key_heads, each = call.heads / call.key_heads;
        const int64_t cost = call.batch * call.heads * call.queries * call.keys * 8;
        const int64_t blocks = up(call.queries, kQueries);
        char* const threads_room = call.room + call.threads * places.head_bytes;
        const Configuration configuration;
        std::atomic<int64_t> threads{0};
        if (key_heads % call.threads == 0 || key_heads >= 4 * call.threads) {
            // Heads are enough to share: what a thread packs it uses at once, while it is in its cache.
            loops::share(key_heads, 1, call.threads, cost, [&](int64_t begin, int64_t end) {
                const int64_t thread = threads++;
                char* packed = call.room + thread * places.head_bytes;
                char* own = threads_room + thread * places.thread_bytes;
                _tile_loadconfig(&configuration);
                for (int64_t key_head = begin; key_head < end; ++key_head) {
                    pack(key_head, 0, places.groups, packed);
                    for (int64_t head = key_head * each; head < (key_head + 1) * each; ++head)
                        for (int64_t block = 0; block < blocks; ++block) attend(head, block, packed, own);
                }
                _tile_release();
            });
            return;
        }
        // Room is for as many heads as threads, so they are gone through in as many at a time.
        for (int64_t first = 0; first < key_heads; first += call.threads) {
            const int64_t here = std::min(call.threads, key_heads - first), groups = places.groups;
            loops::share(here * groups, 1, call.threads, cost, [&](int64_t begin, int64_t end) {
                for (int64_t at = begin; at < end; ++at) {
                    const int64_t head = at / groups, group = at % groups;
                    pack(first + head, group, group + 1, call.room + head * places.head_bytes);
                }
            });
            threads = 0;
            loops::share(here * each * blocks, 1, call.threads, cost, [&](int64_t begin, int64_t end) {
                char* own = threads_room + threads++ * places.thread_bytes;
                _tile_loadconfig(&configuration);
                for (int64_t at = begin; at < end; ++at) {
                    // From both ends in turn: where queries see different numbers of keys, threads get like shares.
                    const int64_t turn = at % blocks, block = turn % 2 ? blocks - 1 - turn / 2 : turn / 2;
                    const int64_t head = at / blocks;
                    attend(first * each + head, block, call.room + head / each * places.head_bytes, own);
                }
                _tile_release();
            });
        }
    }
};

template <int kParts>
void forward(const Call& call) {
    Run<kParts>{call, Places<kParts>(call)}.all();
}

bool granted() {  // Linux gives a process tiles when it asks for them
    constexpr int ask = 0x1023, tiles = 18;
    return syscall(SYS_arch_prctl, ask, tiles) == 0;
}

template <int kParts>
int64_t room(const Call& call) {
    const Places<kParts> places(call);
    return call.threads * (places.head_bytes + places.thread_bytes);
}

}  // namespace

extern "C" int half_available() {
    static const bool available = granted();
    return available;
}
extern "C" int64_t half_room_bfloat16(const Call* call) { return room<1>(*call); }
extern "C" int64_t half_room_float16(const Call* call) { return room<2>(*call); }
extern "C" void half_forward_bfloat16(const Call* call) { forward<1>(*call); }
extern "C" void half_forward_float16(const Call* call) { forward<2>(*call); }

#else  // no such unit: nothing is served

extern "C" int half_available() { return 0; }

#endif
