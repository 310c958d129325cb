// The gradients of dot.cpp's context: weights are made again from the scores and each row's normalizer.
//
// With P the weights, O the context and dO what comes from above: dV = Pᵀ dO, dP = dO Vᵀ, dS = P (dP − Σ dO O),
// dQ = scale · dS K, dK = scale · dSᵀ Q; the gradient of the bias is dS (Dao et al. 2022, appendix B).

#pragma once

#include <vector>

#include "dot_call.hpp"
#include "dot_pack.hpp"

namespace dot {

// What one thread holds of the keys of one head, and the gradients that it adds up for them.
template <typename S, typename T>
struct Side {
    const Call& call;
    int64_t width, value_width, packed;
    Buffer<T> keys, turned_keys, turned_values, to_key, to_value;

    explicit Side(const Call& call)
        : call(call),
          width(whole<T>(call.dim)),
          value_width(whole<T>(call.value_dim)),
          packed((call.keys + kPanel<T> - 1) / kPanel<T> * kPanel<T>),
          keys(call.to_query ? packed * ((call.dim + kPanel<T> - 1) / kPanel<T> * kPanel<T>) : 0),
          turned_keys(packed * call.dim),
          turned_values(slopes() ? packed * call.value_dim : 0),
          to_key(call.to_key ? packed * width : 0),
          to_value(call.to_value ? packed * value_width : 0) {}
    bool slopes() const { return call.to_query || call.to_key || call.to_bias.at; }

    void begin(int64_t item, int64_t head) {
        const S* key = call.key.of<const S>(item, head);
        int64_t size = call.length(item);
        turned_panels_of<S, T>(key, call.key.row, call.key.column, size, call.dim, turned_keys.at);
        if (call.to_query)
            panels_of<S, T>(key, call.key.row, call.key.column, size, call.dim, keys.at, packed);
        if (slopes())
            turned_panels_of<S, T>(call.value.of<const S>(item, head), call.value.row, call.value.column, size,
                                   call.value_dim, turned_values.at);
        if (call.to_key) std::memset(to_key.at, 0, packed * width * sizeof(T));
        if (call.to_value) std::memset(to_value.at, 0, packed * value_width * sizeof(T));
    }
    void end(int64_t item, int64_t head) const {
        int64_t line = (item * call.key_heads + head) * call.keys;
        if (call.to_key)  // the queries were multiplied by scale · log2(e)
            write_rows<S, T>(to_key.at, width, call.keys, call.dim, T(kLn2),
                             reinterpret_cast<S*>(call.to_key) + line * call.dim);
        if (call.to_value)
            write_rows<S, T>(to_value.at, value_width, call.keys, call.value_dim, T(1),
                             reinterpret_cast<S*>(call.to_value) + line * call.value_dim);
    }
};

// Adds the slopes of one row's scores, columns low … high of a tile, to the gradient of the bias.
template <typename T>
void into_bias(const View& bias, T* line, const T* slopes, int64_t low, int64_t high) {
    if (bias.column == 1) {
        for (int64_t c = low; c < high; ++c) line[c] += slopes[c];
    } else if (bias.column == 0) {
        Vec<T> total{};
        int64_t c = low;
        for (; c + kLanes<T> <= high; c += kLanes<T>) total += load(slopes + c);
        T rest = loops::sum<T>(total);
        for (; c < high; ++c) rest += slopes[c];
        *line += rest;
    } else {
        for (int64_t c = low; c < high; ++c) line[c * bias.column] += slopes[c];
    }
}

// to[keys] += weightsᵀ · rows, for the keys of a tile, from the rows whose strips see them.
template <typename T>
void into_keys(const Tile<T>& tile, const T* weights, const T* rows, int64_t width, T* to) {
    const int64_t strips = tile.block.strips();
    auto seen_by = [&](int64_t panel, int64_t& first, int64_t& last) {
        first = strips, last = 0;
        for (int64_t n = 0; n < strips; ++n)
            if (panel < tile.end[n] && panel + kPanel<T> > tile.begin[n]) first = std::min(first, n), last = n + 1;
    };
    for (int64_t panel = 0, next; panel < tile.columns; panel = next) {
        int64_t first, last, other_first, other_last;
        seen_by(panel, first, last);
        for (next = panel + kPanel<T>; next < tile.columns; next += kPanel<T>) {
            seen_by(next, other_first, other_last);
            if (other_first != first || other_last != last) break;
        }
        if (first >= last) continue;
        int64_t row = first * kStrip, depth = std::min(last * kStrip, tile.block.rows) - row;
        int64_t size = std::min(next, tile.block.end - tile.start) - panel;
        for (int64_t c = 0; c < width; c += kPanel<T>)
            loops::multiply<T, true>(size, std::min(kPanel<T>, width - c), depth, weights + row * tile.stride + panel,
                                     1, tile.stride, rows + row * width + c, width,
                                     to + (tile.start + panel) * width + c, width);
    }
}

// A row's scores become weights, as values are read with them, and what comes from above the slopes of its scores.
template <typename T>
void weigh(T* scores, T* slopes, const T* kept, int64_t size, T normalizer, T through) {
    const bool spoiled = normalizer != normalizer;
    for (int64_t c = 0; c < size; c += kLanes<T>) {
        Vec<T> score = load(scores + c), weight = loops::power_of_two<T>(score - normalizer);
        if (spoiled) weight = score == kNever<T> ? Vec<T>{} : weight;
        Vec<T> factor = kept ? load(kept + c) : loops::all<T>(1);
        store(scores + c, weight * factor);
        // Where there is no weight nothing passes, whatever comes from above.
        if (slopes) store(slopes + c, weight == 0 ? Vec<T>{} : weight * (load(slopes + c) * factor - through));
    }
}

template <typename S, typename T>
void backward_head(const Call& call, double scale, Side<S, T>& side, int64_t item, int64_t head, T* to_bias,
                   T* scratch) {
    const int64_t width = side.width, value_width = side.value_width, most = std::min(side.packed, kTile<T>);
    const int64_t rows = call.rows(), stride = most + kLanes<T>;
    T* query = scratch;
    T* above = query + rows * width;
    T* to_query = above + rows * value_width;
    T* weights = to_query + rows * width;
    T* slopes = weights + rows * stride;
    T* draws = slopes + rows * stride;
    T* through = draws + most;
    T* read = through + rows;
    const bool sloping = side.slopes();
    for (int64_t from = 0; from < call.queries; from += rows) {
        Block block(call, item, head, from, rows);
        int64_t line = (item * call.heads + head) * call.queries + block.first;
        const T* normalizer = reinterpret_cast<const T*>(call.normalizer) + line;
        const S* context = reinterpret_cast<const S*>(call.context) + line * call.value_dim;
        rows_of<S, T>(call.query.of<const S>(item, head) + block.first * call.query.row, call.query.row,
                      call.query.column, block.rows, call.dim, T(scale * kLog2e), query, width);
        rows_of<S, T>(call.upstream.of<const S>(item, head) + block.first * call.upstream.row, call.upstream.row,
                      call.upstream.column, block.rows, call.value_dim, T(1), above, value_width);
        for (int64_t r = 0; r < block.rows; ++r) {
            rows_of<S, T>(context + r * call.value_dim, 0, 1, 1, call.value_dim, T(1), read, value_width);
            Vec<T> total{};
            for (int64_t c = 0; c < value_width; c += kLanes<T>) total += load(read + c) * load(above + r * value_width + c);
            through[r] = loops::sum<T>(total);
        }
        if (call.to_query) std::memset(to_query, 0, block.rows * width * sizeof(T));
        for (int64_t start = block.begin / kPanel<T> * kPanel<T>; start < block.end; start += kTile<T>) {
            Tile<T> tile(call, block, start, most);
            tile.product(query, call.dim, side.turned_keys.at, width, weights);
            if (sloping) tile.product(above, call.value_dim, side.turned_values.at, value_width, slopes);
            for (int64_t r = 0; r < block.rows; ++r) {
                int64_t strip = r / kStrip, first = tile.first_panel(strip), last = tile.last_panel(strip);
                T *weight = weights + r * stride, *slope = slopes + r * stride;
                if (first == last) {  // the products over rows must find nothing there
                    if (call.keep.at) {
                        std::memset(weight, 0, tile.columns * sizeof(T));
                        std::memset(slope, 0, tile.columns * sizeof(T));
                    }
                    continue;
                }
                tile.finish(r, weight, first, last);
                if (call.dropped) Draws<T>(call, line + r).write(start + first, last - first, draws);
                weigh(weight + first, sloping ? slope + first : nullptr, call.dropped ? draws : nullptr, last - first,
                      normalizer[r], through[r]);
                if (to_bias)
                    into_bias(call.to_bias, to_bias + (block.first + r) * call.to_bias.row + start * call.to_bias.column,
                              slope, tile.begin[strip], tile.end[strip]);
            }
            if (call.to_value) into_keys(tile, weights, above, value_width, side.to_value.at);
            if (call.to_key) into_keys(tile, slopes, query, width, side.to_key.at);
            if (call.to_query) tile.read(slopes, side.keys.at, side.packed, width, to_query);
        }
        if (call.to_query)
            write_rows<S, T>(to_query, width, block.rows, call.dim, T(scale),
                             reinterpret_cast<S*>(call.to_query) + line * call.dim);
    }
}

// Each key head is one thread's, so that its gradients are added up in one order. Where heads or items share a bias, all
// that share it are one thread's; if that is all of them, each thread adds up its own, and these are added up at last.
template <typename S, typename T>
void backward(const Call& call, double scale) {
    const View& bias = call.to_bias;
    const int64_t units = call.batch * call.key_heads, group = call.group();
    const bool over_items = bias.at && bias.item == 0, over_heads = bias.at && bias.head == 0;
    const bool apart = over_items && over_heads && units > 1 && call.threads > 1;
    int64_t step = over_items ? call.batch : over_heads ? call.key_heads : 1;
    if (over_items && over_heads) step = apart ? (units + call.threads - 1) / call.threads : units;
    std::vector<std::vector<T>> parts(apart ? (units + step - 1) / step : 0);
    int64_t cost = 3 * call.batch * call.heads * call.queries * call.keys * (call.dim + call.value_dim);
    share(units, step, call.threads, cost, [&](int64_t from, int64_t to) {
        Side<S, T> side(call);
        const int64_t most = std::min(side.packed, kTile<T>);
        Buffer<T> scratch(call.rows() * (2 * side.width + side.value_width + 2 * (most + kLanes<T>) + 1) + most +
                          side.value_width);
        for (int64_t unit = from; unit < to; ++unit) {
            int64_t item = over_items ? unit % call.batch : unit / call.key_heads;
            int64_t key_head = over_items ? unit / call.batch : unit % call.key_heads;
            side.begin(item, key_head);
            for (int64_t head = key_head * group; head < (key_head + 1) * group; ++head) {
                T* to_bias = bias.at ? bias.of<T>(item, head) : nullptr;
                if (apart) {
                    auto& part = parts[unit / step];
                    part.resize(call.bias_size);
                    to_bias = part.data();
                }
                backward_head<S, T>(call, scale, side, item, head, to_bias, scratch.at);
            }
            side.end(item, key_head);
        }
    });
    for (const auto& part : parts)
        for (size_t n = 0; n < part.size(); ++n) reinterpret_cast<T*>(bias.at)[n] += part[n];
}

}  // namespace dot
