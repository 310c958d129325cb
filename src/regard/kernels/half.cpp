// Attention of bfloat16 and float16 by the processor's matrix unit (AMX), forward.
//
// A tile product multiplies bfloat16 numbers and adds up in float32. A float16 number is the sum of two bfloat16 (its
// 11 bits are 8 and 3), so that products of float16 are sums of products of parts, exact as well.
//
// A block of queries takes its scores of up to 512 keys, their maxima, the weights and the products with values one after
// the other: the unit and the vectors gain next to nothing side by side. More keys come in blocks, with the running
// maximum and sum of Milakov & Gimelshein (2018).

#include "half_pack.hpp"

#ifdef REGARD_HAS_TILES

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cmath>

namespace {

// --- a block of queries ---------------------------------------------------------------------------------------------

#define REGARD_INLINE inline __attribute__((always_inline))
#define REGARD_ALONE __attribute__((noinline))  // among others' its registers would not suffice

// The keys that each of kQueries queries sees, from start to before stop.
struct Seen {
    int64_t start[kQueries], stop[kQueries];
    int64_t first, last;       // what any of them sees
    int64_t all_from, all_to;  // what all of them see

    Seen(const Call& call, int64_t query, int64_t count, int64_t keys)
        : first(keys), last(0), all_from(0), all_to(keys) {
        for (int64_t row = 0; row < count; ++row) {
            const int64_t at = query + row + call.offset;
            start[row] = std::min(std::max<int64_t>(at - call.before, 0), keys);
            stop[row] = std::max(std::min(at + call.after + 1, keys), start[row]);
            if (start[row] < stop[row]) first = std::min(first, start[row]), last = std::max(last, stop[row]);
            all_from = std::max(all_from, start[row]), all_to = std::min(all_to, stop[row]);
        }
    }
    bool is_whole(int64_t group) const { return all_from <= group * kKeys && (group + 1) * kKeys <= all_to; }
};

// What a query sees of some groups of keys: keys from low to before high, which are in groups from first to before last.
struct Part {
    int64_t low, high, first, last;

    Part(const Seen& seen, int64_t row, int64_t begin, int64_t end) {
        const int64_t size = (end - begin) * kKeys;
        low = std::min(std::max<int64_t>(seen.start[row] - begin * kKeys, 0), size);
        high = std::min(std::max(seen.stop[row] - begin * kKeys, low), size);
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
    const Seen& seen;
    const int64_t count;  // of queries
    const char *keys, *values;
    char* own;
    float scale;  // to the scores' binary logarithms
    alignas(64) float maximum[kQueries];
    __m512 highest[kQueries], sums[kQueries];

    float* scores_of(int64_t row) const {
        return reinterpret_cast<float*>(own + places.scores_at) + row * Places<kParts>::kScores;
    }
    float* context_of(int64_t row) const {
        return reinterpret_cast<float*>(own + places.context_at) + row * places.context_stride;
    }
    char* weights_of(int64_t group) const { return own + places.weights_at + group * kParts * 2 * kTile; }

    // Scores of some groups of keys, and the highest lane by lane. Those of a group are looked at while they are near and
    // the next group's are made.
    REGARD_ALONE void score(int64_t begin, int64_t end) {
        const int64_t chunks = places.chunks;
        const char* key = keys + begin * places.key_bytes;
        float* to = scores_of(0);
        for (int64_t row = 0; row < count; ++row) highest[row] = _mm512_set1_ps(maximum[row]);
        REGARD_WRITTEN();
        for (int64_t group = begin; group < end; ++group, to += kKeys) {
            const char* query = own;
            zero();
            for (int64_t chunk = 0; chunk < chunks; ++chunk) {
                add_products(query, key);
                if (kParts == 2) {  // one side changes at a time
                    add_products<false, true>(query, key + 2 * kTile);
                    add_products<true, false>(query + 2 * kTile, key + 2 * kTile);
                    add_products<false, true>(query + 2 * kTile, key);
                }
                query += kParts * 2 * kTile, key += kParts * 2 * kTile;
            }
            if (group > begin) look(group - 1, begin, end, to - kKeys);
            store(to, Places<kParts>::kScores);
        }
        look(end - 1, begin, end, to - kKeys);
    }
    REGARD_INLINE void look(int64_t group, int64_t begin, int64_t end, const float* from) {
        const bool is_whole = seen.is_whole(group);
        for (int64_t row = 0; row < count; ++row, from += Places<kParts>::kScores) {
            const __m512 low = _mm512_load_ps(from), high = _mm512_load_ps(from + kLanes);
            if (is_whole) {
                highest[row] = _mm512_max_ps(high, _mm512_max_ps(low, highest[row]));
            } else {
                const uint32_t some = Part(seen, row, begin, end).of(group - begin);
                highest[row] = _mm512_mask_max_ps(highest[row], __mmask16(some), low, highest[row]);
                highest[row] = _mm512_mask_max_ps(highest[row], __mmask16(some >> 16), high, highest[row]);
            }
        }
    }

    // A query's highest score so far; what was added up below another is brought down to it.
    void raise(int64_t row) {
        const float found = _mm512_reduce_max_ps(highest[row]);
        if (found == maximum[row]) return;
        if (maximum[row] != -INFINITY) {
            const __m512 factor = two_to_the<true>(_mm512_set1_ps((maximum[row] - found) * scale));
            sums[row] *= factor;
            float* context = context_of(row);
            for (int64_t c = 0; c < places.context_stride; c += kLanes)
                _mm512_store_ps(context + c, _mm512_load_ps(context + c) * factor);
        }
        maximum[row] = found;
    }

    // A query's weights, one row of a tile for each group, 0 where it sees nothing.
    REGARD_ALONE void weigh(int64_t row, const Part& part, int64_t groups) {
        const float* from = scores_of(row);
        char* to = weights_of(0) + row / 16 * kTile + row % 16 * 64;
        // Who saw nothing yet has no maximum, and no weights either.
        const __m512 factor = _mm512_set1_ps(scale);
        const __m512 top = _mm512_set1_ps(maximum[row] == -INFINITY ? 0 : maximum[row] * scale);
        __m512 total = sums[row];
        for (int64_t group = 0; group < groups; ++group, from += kKeys, to += kParts * 2 * kTile) {
            const uint32_t seen = part.of(group);
            if (seen == ~0u)
                weigh<true>(from, factor, top, seen, total, to);
            else
                weigh<false>(from, factor, top, seen, total, to);
        }
        sums[row] = total;
    }
    template <bool kWhole>
    static REGARD_INLINE void weigh(const float* from, __m512 factor, __m512 top, uint32_t seen, __m512& total,
                                    char* to) {
        __m512 weights[2];
        for (int i = 0; i < 2; ++i) {
            weights[i] = two_to_the<kParts == 2>(_mm512_fmsub_ps(_mm512_load_ps(from + i * kLanes), factor, top));
            if (!kWhole) weights[i] = _mm512_maskz_mov_ps(__mmask16(seen >> 16 * i), weights[i]);
        }
        if (kParts == 1) {
            const __m512bh packed = _mm512_cvtne2ps_pbh(weights[1], weights[0]);
            _mm512_store_si512(to, (__m512i)packed);
            total = _mm512_dpbf16_ps(total, packed, (__m512bh)_mm512_set1_epi16(0x3f80));
        } else {
            __m512 first[2];
            for (int i = 0; i < 2; ++i) {
                total += weights[i];
                __m512i rounded = _mm512_add_epi32(_mm512_castps_si512(weights[i]), _mm512_set1_epi32(0x8000));
                first[i] = _mm512_castsi512_ps(_mm512_and_si512(rounded, _mm512_set1_epi32(0xffff0000)));
            }
            _mm512_store_si512(to, (__m512i)_mm512_cvtne2ps_pbh(first[1], first[0]));
            _mm512_store_si512(to + 2 * kTile, (__m512i)_mm512_cvtne2ps_pbh(weights[1] - first[1], weights[0] - first[0]));
        }
    }

    // Adds the values of some groups, weighed, to the context.
    REGARD_ALONE void read(int64_t begin, int64_t end, bool is_first) const {
        REGARD_WRITTEN();
        for (int64_t slice = 0; slice < places.slices; ++slice) {
            float* context = context_of(0) + slice * 32;
            if (is_first)
                zero();
            else
                load(context, places.context_stride);
            for (int64_t group = begin; group < end; ++group) {
                const char* weights = weights_of(group - begin);
                const char* value = values + group * places.value_bytes + slice * kParts * 2 * kTile;
                if (kParts == 2) {  // the product of both lower parts is below float32's precision
                    add_products(weights, value + 2 * kTile);
                    add_products<false, true>(weights, value);
                    add_products<true, false>(weights + 2 * kTile, value);
                } else {
                    add_products(weights, value);
                }
            }
            store(context, places.context_stride);
        }
    }

    void run() {
        for (int64_t row = 0; row < kQueries; ++row) maximum[row] = -INFINITY, sums[row] = _mm512_setzero_ps();
        const int64_t from = seen.first / kKeys, to = up(seen.last, kKeys);
        for (int64_t begin = from; begin < to; begin += kGroups) {
            const int64_t end = std::min(begin + kGroups, to);
            score(begin, end);
            // Rows of weights that no query has may hold anything: they give rows of the context that none has either.
            for (int64_t row = 0; row < count; ++row) raise(row);
            for (int64_t row = 0; row < count; ++row) weigh(row, Part(seen, row, begin, end), end - begin);
            read(begin, end, begin == from);
        }
    }

    // Divides by the sums and writes rows.
    void finish(uint16_t* context, float* logsumexp) {
        alignas(64) float totals[kQueries];
        __mmask32 none = 0;
        for (int64_t row = 0; row < count; ++row, context += call.width) {
            const float total = totals[row] = _mm512_reduce_add_ps(sums[row]);
            // Who sees nothing reads 0, and so does one whose visible scores are all −inf.
            const bool is_blind = seen.start[row] == seen.stop[row];
            const bool reads = !is_blind && (maximum[row] != -INFINITY || std::isnan(total));
            none |= __mmask32(!reads) << row;
            const __m512 inverse = _mm512_set1_ps(1 / total);
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
        for (int64_t row = 0; row < count; row += kLanes) {
            __m512 logs = logarithm(_mm512_load_ps(totals + row)) + _mm512_load_ps(maximum + row) * scale * kLogTwo;
            logs = _mm512_mask_mov_ps(logs, __mmask16(none >> row), _mm512_set1_ps(-INFINITY));
            _mm512_mask_storeu_ps(logsumexp + row, count - row >= 16 ? 0xffff : (1 << (count - row)) - 1, logs);
        }
    }
};

// --- the call -------------------------------------------------------------------------------------------------------

template <int kParts>
struct Run {
    const Call& call;
    const double scale;
    char* const room;  // for as many heads as there are threads, and what each thread has for itself
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
                             scale < 0, own);
        const Seen seen(call, query, count, length(item));
        Block<kParts> one{call, places, seen, count, packed, packed + places.groups * places.key_bytes, own,
                          float(std::abs(scale) * 1.44269504088896340736), {}, {}, {}};
        one.run();
        one.finish(call.context + row * call.width, call.logsumexp + row);
    }

    void all() const {
        const int64_t key_heads = call.batch * call.key_heads, each = call.heads / call.key_heads;
        const int64_t cost = call.batch * call.heads * call.queries * call.keys * 8;
        const int64_t blocks = up(call.queries, kQueries);
        char* const threads_room = room + call.threads * places.head_bytes;
        const Configuration configuration;
        std::atomic<int64_t> threads{0};
        if (key_heads % call.threads == 0 || key_heads >= 4 * call.threads) {
            // Heads are enough to share: what a thread packs it uses at once, while it is in its cache.
            loops::share(key_heads, 1, call.threads, cost, [&](int64_t begin, int64_t end) {
                const int64_t thread = threads++;
                char* packed = room + thread * places.head_bytes;
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
                    pack(first + head, group, group + 1, room + head * places.head_bytes);
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
                    attend(first * each + head, block, room + head / each * places.head_bytes, own);
                }
                _tile_release();
            });
        }
    }
};

template <int kParts>
void forward(const Call& call, double scale) {
    const Places<kParts> places(call);
    const std::align_val_t line{64};
    void* room = ::operator new(call.threads * (places.head_bytes + places.thread_bytes), line, std::nothrow);
    if (!room) {
        loops::failed = true;
        return;
    }
    Run<kParts>{call, scale, static_cast<char*>(room), places}.all();
    ::operator delete(room, line);
}

bool granted() {  // Linux gives a process tiles when it asks for them
    constexpr int ask = 0x1023, tiles = 18;
    return syscall(SYS_arch_prctl, ask, tiles) == 0;
}

}  // namespace

extern "C" int half_available() {
    static const bool available = granted();
    return available;
}
extern "C" void half_forward_bfloat16(const Call* call, double scale) { forward<1>(*call, scale); }
extern "C" void half_forward_float16(const Call* call, double scale) { forward<2>(*call, scale); }

#else  // no such unit: nothing is served

extern "C" int half_available() { return 0; }

#endif
