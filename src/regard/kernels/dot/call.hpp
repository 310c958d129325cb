// What the passes over softmax(scale · q kᵀ + bias) share: the numbers of a call, which keys each query may attend to,
// and scores of tiles.
//
// Scores are logarithms to the base 2, log2(e) being part of what queries are multiplied by: a weight is then a power
// of two. Queries are gone through in blocks of rows, blocks in strips of as many rows as a product takes at once, keys
// in tiles, tiles in panels of two vectors. What a strip may not attend to in a tile is not computed. Products are either
// vectors' (`vectors.hpp`) or the matrix unit's (`amx/products.hpp`).

#pragma once

#include "dot/panels.hpp"

namespace dot {

// Query i attends to the keys i + offset − before … i + offset + after, and of 2^32 weights `dropped` are dropped.
struct Call : abi::DotCall {
    // What only some loops have: 0 where the others do, and where a gradient isn't wanted.
    int64_t context = 0, normalizer = 0;  // (batch, heads, queries, value_dim), (batch, heads, queries)
    View upstream{};
    int64_t to_query = 0, to_key = 0, to_value = 0;
    View to_bias{};
    int64_t bias_size = 0;  // numbers of the bias
    int64_t top = 0, entropy = 0, maximum = 0, received = 0, top_weights = 0, top_keys = 0;

    explicit Call(const abi::DotCall& given) : abi::DotCall(given) {}

    int64_t group() const { return heads / key_heads; }
    // What was read may make others NaN: a NaN, or numbers whose squares are too large to be added up.
    void warn() const {
        if (unsafe) __atomic_store_n(unsafe, 1, __ATOMIC_RELAXED);
    }
    // Whether no two scores share a number of the bias: its gradient is contiguous, and written rather than added to.
    bool bias_apart() const { return to_bias.at && bias_size == batch * heads * queries * keys; }
    int64_t length(int64_t item) const {
        return lengths ? std::min(keys, lengths[item]) : keys;
    }
    int64_t valid_queries(int64_t item) const {
        return query_lengths ? std::min(queries, query_lengths[item]) : queries;
    }
    int64_t begin(int64_t row) const { return std::max<int64_t>(0, row + offset - before); }
    int64_t end(int64_t item, int64_t row) const {
        if (row >= valid_queries(item)) return 0;
        return std::max<int64_t>(0, std::min(length(item), row + offset + after + 1));
    }
    // The end of what any of some rows attends to: that of the last one.
    int64_t end(int64_t item, int64_t first, int64_t rows) const {
        int64_t last = std::min(first + rows, valid_queries(item)) - 1;
        return last < first ? 0 : end(item, last);
    }
    // Rows of a block: as even as possible, whole strips, at most so many.
    int64_t rows(int64_t strip, int64_t most) const {
        int64_t blocks = (queries + most - 1) / most;
        return blocks < 2 ? queries : ((queries + blocks - 1) / blocks + strip - 1) / strip * strip;
    }
    bool attends(int64_t item, int64_t head, int64_t row, int64_t place) const {
        bool within = begin(row) <= place && place < end(item, row);
        return within && (!keep.at || keep.of<uint8_t>(item, head)[row * keep.row + place * keep.column]);
    }
};

// Some queries of one head.
struct Block {
    int64_t item, head, first, rows;
    int64_t begin, end;  // the keys that any of them attends to

    Block(const Call& call, int64_t item, int64_t head, int64_t first, int64_t most)
        : item(item),
          head(head),
          first(first),
          rows(std::min(most, call.queries - first)),
          begin(call.begin(first)),
          end(call.end(item, first, rows)) {}

    // Leaves the rows that ask, which come first, so that nothing of the others is read. Says how many there were.
    int64_t narrow(const Call& call) {
        const int64_t all = rows;
        rows = std::max<int64_t>(0, std::min(all, call.valid_queries(item) - first));
        return all;
    }
};

// A block and some keys, whole panels from `start` on. What strip n may attend to: begin[n] … end[n], from `start`.
template <typename T, int64_t kStrip>
struct Tile {
    const Call& call;
    const Block& block;
    int64_t start, columns, stride;
    int64_t begin[kMostStrips], end[kMostStrips];

    Tile(const Call& call, const Block& block, int64_t start, int64_t most)
        : call(call), block(block), start(start), stride(most + kLanes<T>) {
        int64_t left = block.end - start;
        columns = std::min(most, (left + kPanel<T> - 1) / kPanel<T> * kPanel<T>);
        for (int64_t n = 0; n < strips(); ++n) {
            int64_t row = block.first + n * kStrip;
            begin[n] = std::max<int64_t>(0, call.begin(row) - start);
            end[n] = std::min(std::min(left, columns), call.end(block.item, row, rows_of(n)) - start);
            if (begin[n] >= end[n] || (call.keep.at && !any_kept(n))) begin[n] = end[n] = 0;
        }
    }

    int64_t strips() const { return (block.rows + kStrip - 1) / kStrip; }
    int64_t rows_of(int64_t strip) const { return std::min(kStrip, block.rows - strip * kStrip); }
    bool any_kept(int64_t strip) const {
        const View& keep = call.keep;
        const uint8_t* kept = keep.of<const uint8_t>(block.item, block.head);
        int64_t rows = keep.row ? rows_of(strip) : 1, size = keep.column ? end[strip] - begin[strip] : 1;
        for (int64_t r = 0; r < rows; ++r) {
            const uint8_t* line = kept + (block.first + strip * kStrip + r) * keep.row +
                                  (start + begin[strip]) * keep.column;
            uint8_t any = 0;
            if (keep.column == 1)
                for (int64_t c = 0; c < size; ++c) any |= line[c];
            else
                for (int64_t c = 0; c < size; ++c) any |= line[c * keep.column];
            if (any) return true;
        }
        return false;
    }

    // What a strip attends to, in whole panels and in whole vectors.
    bool visible(int64_t n, int64_t panel) const { return panel < end[n] && panel + kPanel<T> > begin[n]; }
    int64_t first_panel(int64_t n) const { return begin[n] / kPanel<T> * kPanel<T>; }
    int64_t last_panel(int64_t n) const { return (end[n] + kPanel<T> - 1) / kPanel<T> * kPanel<T>; }
    int64_t first_vector(int64_t n) const { return begin[n] / kLanes<T> * kLanes<T>; }
    int64_t last_vector(int64_t n) const { return whole<T>(end[n]); }

    // The bias is as large as the scores: it is on its way from memory while these are computed.
    void fetch_bias(int64_t strip, int64_t panel) const {
        const View& bias = call.bias;
        if (!bias.at || bias.row == 0 || bias.column != 1) return;
        const T* line = bias.of<const T>(block.item, block.head) + start + panel;
        for (int64_t r = 0; r < rows_of(strip); ++r)
            for (int64_t c = 0; c < kPanel<T>; c += kLanes<T>)
                __builtin_prefetch(line + (block.first + strip * kStrip + r) * bias.row + c, 0, 2);
    }

    // Scores of one row from its product, keys from … to: the bias is added, −inf written where it is masked out.
    void finish(int64_t row, T* scores, int64_t from, int64_t to) const {
        int64_t query = block.first + row;
        int64_t low = std::min(std::max(from, call.begin(query) - start), to);
        int64_t high = std::max(std::min(to, call.end(block.item, query) - start), low);
        if (call.bias.at) {
            const View& bias = call.bias;
            const T* line = bias.of<const T>(block.item, block.head) + query * bias.row + start * bias.column;
            int64_t c = low;
            if (bias.column == 1)
                for (; c + kLanes<T> <= high; c += kLanes<T>)
                    store(scores + c, load(scores + c) + load(line + c) * T(kLog2e));
            for (; c < high; ++c) scores[c] += line[c * bias.column] * T(kLog2e);
        }
        if (call.keep.at) {
            const View& keep = call.keep;
            const uint8_t* line = keep.of<const uint8_t>(block.item, block.head) + query * keep.row +
                                  start * keep.column;
            if (keep.column == 1)
                for (int64_t c = low; c < high; ++c) scores[c] = line[c] ? scores[c] : kNever<T>;
            else
                for (int64_t c = low; c < high; ++c) scores[c] = line[c * keep.column] ? scores[c] : kNever<T>;
        }
        for (int64_t c = from; c < low; ++c) scores[c] = kNever<T>;
        for (int64_t c = high; c < to; ++c) scores[c] = kNever<T>;
    }
};

// No work to be done while products are made.
struct Idle {
    static constexpr int64_t left = 0;
    void step() {}
};

// --- draws ----------------------------------------------------------------------------------------------------------

// What each weight of a row is multiplied by, 0 or 1 / (1 − rate): a mixture of the seed, the row's number and the key.
template <typename T>
class Draws {
  public:
    Draws(const Call& call, int64_t row)
        : least(call.dropped >> 32 ? 0 : uint32_t(call.dropped)),
          kept(call.dropped >> 32 ? T(0) : T(1 / (1 - double(call.dropped) / 4294967296.0))) {
        uint64_t x = uint64_t(call.seed) + uint64_t(row + 1) * 0x9e3779b97f4a7c15u;  // splitmix64
        x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
        x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
        x ^= x >> 31;
        one = uint32_t(x), other = uint32_t(x >> 32);
    }
    // For the keys key … key + size.
    void write(int64_t key, int64_t size, T* to) const {
        for (int64_t c = 0; c < size; ++c) {
            uint32_t x = uint32_t(key + c) * 0x9e3779b9u + one;
            x = (x ^ (x >> 16)) * 0x21f0aaadu + other;
            x = (x ^ (x >> 15)) * 0xd35a2d97u;
            x ^= x >> 15;
            to[c] = x >= least ? kept : T(0);
        }
    }

  private:
    uint32_t least;
    T kept;
    uint32_t one, other;
};

}  // namespace dot
