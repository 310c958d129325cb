// Attention of bfloat16 and float16 by the processor's matrix unit (AMX), forward.
//
// A tile product multiplies bfloat16 numbers and adds up in float32. A float16 number is the sum of two bfloat16 (its
// 11 bits are 8 and 3), so that products of float16 are sums of products of parts, exact as well.

#include "dot/amx/half_block.hpp"

#ifdef REGARD_HALF_BY_TILES

#include <atomic>

namespace {

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
        const uint16_t* from = call.query + item * q[0] + within * q[1] + query * q[2];
        const Visible visible(call, query, count, length(item));
        Block<kParts> one(call, places, visible, count, packed, own, scale);
        if (one.is_short() && q[3] == 1 && call.dim == 64 && count == kQueries && scale >= 0)
            one.take_queries(from, q[2]);
        else
            pack_queries<kParts>(call, from, count, places.chunks, scale < 0, own);
        one.run();
        one.finish(call.context + row * call.width, call.logsumexp ? call.logsumexp + row : nullptr);
    }

    void all() const {
        const int64_t key_heads = call.batch * call.key_heads, each = call.heads / call.key_heads;
        const int64_t cost = call.batch * call.heads * call.queries * call.keys * 8;
        const int64_t blocks = up(call.queries, kQueries);
        char* const threads_room = room + call.threads * places.head_bytes;
        std::atomic<int64_t> threads{0};
        if (key_heads % call.threads == 0 || key_heads >= 4 * call.threads) {
            // Heads are enough to share: what a thread packs it uses at once, while it is in its cache.
            loops::share(key_heads, 1, call.threads, cost, [&](int64_t begin, int64_t end) {
                const int64_t thread = threads++;
                char* packed = room + thread * places.head_bytes;
                char* own = threads_room + thread * places.thread_bytes;
                const tiles::Held held(true);
                for (int64_t key_head = begin; key_head < end; ++key_head) {
                    pack(key_head, 0, places.groups, packed);
                    for (int64_t head = key_head * each; head < (key_head + 1) * each; ++head)
                        for (int64_t block = 0; block < blocks; ++block) attend(head, block, packed, own);
                }
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
                const tiles::Held held(true);
                for (int64_t at = begin; at < end; ++at) {
                    // From both ends in turn: where queries attend to different numbers of keys, threads get like shares.
                    const int64_t turn = at % blocks, block = turn % 2 ? blocks - 1 - turn / 2 : turn / 2;
                    const int64_t head = at / blocks;
                    attend(first * each + head, block, room + head / each * places.head_bytes, own);
                }
            });
        }
    }
};

template <int kParts>
void forward(const Call& call) {
    const Places<kParts> places(call);
    const std::align_val_t line{64};
    void* room = ::operator new(call.threads * (places.head_bytes + places.thread_bytes), line, std::nothrow);
    if (!room) {
        loops::failed = true;
        return;
    }
    Run<kParts>{call, call.scale, static_cast<char*>(room), places}.all();
    ::operator delete(room, line);
}

}  // namespace

extern "C" int64_t half_available() { return tiles::granted(); }
extern "C" void half_forward_bfloat16(const Call& call) { forward<1>(call); }
extern "C" void half_forward_float16(const Call& call) { forward<2>(call); }

#else  // no such unit: nothing is served

extern "C" int64_t half_available() { return 0; }

#endif
