// The gradients of dot.cpp's context: weights are made again from the scores and each row's normalizer.
//
// With P the weights, O the context and dO what comes from above: dV = Pᵀ dO, dP = dO Vᵀ, dS = P (dP − Σ dO O),
// dQ = scale · dS K, dK = scale · dSᵀ Q; the gradient of the bias is dS (Dao et al. 2022, appendix B).

#pragma once

#include <optional>
#include <vector>

#include "dot/call.hpp"
#include "dot/directions.hpp"
#include "dot/pack.hpp"
#include "dot/vectors.hpp"

namespace dot {

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

// The same where this is all that the row's gradient is, `size` numbers of it: 0 beyond low … high.
template <typename T>
void write_bias(T* line, const T* slopes, int64_t low, int64_t high, int64_t size) {
    std::memset(line, 0, low * sizeof(T));
    std::memcpy(line + low, slopes + low, (high - low) * sizeof(T));
    std::memset(line + high, 0, (size - high) * sizeof(T));
}

// A row's scores become weights, as values are read with them, and what comes from above the slopes of its scores.
template <typename T>
void weigh(T* scores, T* slopes, const T* kept, int64_t size, T normalizer, T through) {
    const bool nonfinite = normalizer != normalizer;
    for (int64_t c = 0; c < size; c += kLanes<T>) {
        Vec<T> score = load(scores + c), weight = loops::power_of_two<T>(score - normalizer);
        if (nonfinite) weight = score == kNever<T> ? Vec<T>{} : weight;
        Vec<T> factor = kept ? load(kept + c) : loops::all<T>(1);
        store(scores + c, weight * factor);
        // Where there is no weight nothing passes, whatever comes from above.
        if (slopes) store(slopes + c, weight == 0 ? Vec<T>{} : weight * (load(slopes + c) * factor - through));
    }
}

// What one thread needs for the gradients of one head of keys, and of the queries that attend to it.
template <typename S, typename T, typename P>
class Backward {
  public:
    Backward(const Call& call, double scale, int64_t rows, Directions<S, T>& key_directions,
             Directions<S, T>& query_directions)
        : call(call),
          key_directions(key_directions),
          query_directions(query_directions),
          sloping(call.to_query || call.to_key || call.to_bias.at),
          scale(scale),
          rows(rows),
          most(std::min((call.keys + kPanel<T> - 1) / kPanel<T> * kPanel<T>, kTile<T>)),
          stride(most + kLanes<T>),
          width(whole<T>(call.dim)),
          value_width(whole<T>(call.value_dim)),
          transposed_keys(call.keys, call.dim),
          transposed_values(sloping ? call.keys : 0, call.value_dim),
          keys(call.to_query ? call.keys : 0, call.dim),
          to_key(call.to_key ? call.keys : 0, call.dim),
          to_value(call.to_value ? call.keys : 0, call.value_dim),
          query(rows, call.dim, call.to_key),
          above(rows, call.value_dim, call.to_value),
          to_query((rows + kPanel<T>) * width),
          weights((rows + kPanel<T>) * stride),
          slopes((rows + kPanel<T>) * stride),
          draws(most),
          read(value_width),
          through(rows) {}

    // Whether all that is multiplied is of a size for the processor's matrix unit.
    static bool fits(const Call& call, double scale, const View& own_key, Directions<S, T>& query_directions, int64_t item,
                     int64_t key_head) {
        auto fits = [&](const View& view, int64_t size, int64_t columns, double factor) {
            return Reach<T>::template of<S>(view, 0, 0, size, columns, T(factor)).fits;
        };
        bool all = fits(own_key, call.length(item), call.dim, 1) &&
                   fits(call.value.rows<S>(item, key_head, 0), call.length(item), call.value_dim, 1);
        for (int64_t head = key_head * call.group(); all && head < (key_head + 1) * call.group(); ++head)
            all = fits(query_directions.of(call.query, item, head, 0, call.valid_queries(item)), call.valid_queries(item), call.dim,
                       scale * kLog2e) &&
                  fits(call.upstream.rows<S>(item, head, 0), call.valid_queries(item), call.value_dim, 1);
        return all;
    }

    // The key is that of this head, or its directions.
    void go_through(const View& own_key, int64_t item, int64_t key_head, T* to_bias, bool bias_by_head) {
        transposed_keys.write(own_key, 0, 0, call.length(item));
        if (sloping) transposed_values.write(call.value, item, key_head, call.length(item));
        if (call.to_query) keys.write(own_key, 0, 0, call.length(item));
        if (call.to_key) to_key.clear();
        if (call.to_value) to_value.clear();
        for (int64_t n = 0; n < call.group(); ++n)
            go_through_head(item, key_head * call.group() + n,
                            to_bias && bias_by_head ? to_bias + n * call.to_bias.head : to_bias);
        int64_t line = (item * call.key_heads + key_head) * call.keys;
        // The queries were multiplied by scale · log2(e).
        if (call.to_key) {
            S* out = reinterpret_cast<S*>(call.to_key) + line * call.dim;
            to_key.write(T(kLn2), out);
            key_directions.back(0, call.length(item), out);
        }
        if (call.to_value) to_value.write(T(1), reinterpret_cast<S*>(call.to_value) + line * call.value_dim);
    }

  private:
    const Call& call;
    Directions<S, T>&key_directions, &query_directions;
    const bool sloping;
    const double scale;
    const int64_t rows, most, stride, width, value_width;
    typename P::Turned transposed_keys, transposed_values;
    typename P::Straight keys;
    typename P::Sums to_key, to_value;
    typename P::Lines query, above;
    Buffer<T> to_query, weights, slopes, draws, read, through;
    typename P::Room room;

    void go_through_head(int64_t item, int64_t head, T* to_bias) {
        const View given = query_directions.of(call.query, item, head, 0, call.valid_queries(item));
        for (int64_t from = 0; from < call.queries; from += rows) {
            Block block(call, item, head, from, rows);
            const int64_t all = block.narrow(call), seeing = block.begin < block.end ? block.rows : 0;
            int64_t line = (item * call.heads + head) * call.queries + from;
            S* out = reinterpret_cast<S*>(call.to_query) + line * call.dim;
            if (call.to_query) std::memset(out + seeing * call.dim, 0, (all - seeing) * call.dim * sizeof(S));
            if (call.bias_apart()) clear_bias(to_bias, from + seeing, from + all, 0, call.keys);
            if (seeing == 0) continue;
            query.write(given.rows<S>(0, 0, from), block.rows, T(scale * kLog2e));
            above.write(call.upstream.rows<S>(item, head, from), block.rows, T(1));
            const S* context = reinterpret_cast<const S*>(call.context) + line * call.value_dim;
            for (int64_t r = 0; r < block.rows; ++r) {
                rows_of<S, T>(context + r * call.value_dim, 0, 1, 1, call.value_dim, T(1), read.at, value_width);
                Vec<T> total{};
                for (int64_t c = 0; c < value_width; c += kLanes<T>)
                    total += load(read.at + c) * load(above.numbers.at + r * value_width + c);
                through.at[r] = loops::sum<T>(total);
            }
            if (call.to_query) std::memset(to_query.at, 0, (block.rows + kPanel<T>) * width * sizeof(T));
            int64_t start = block.begin / kPanel<T> * kPanel<T>;
            if (call.bias_apart()) clear_bias(to_bias, from, from + seeing, 0, start);
            for (; start < block.end; start += kTile<T>)
                go_through_tile(typename P::Tile(call, block, start, most), line, to_bias);
            if (call.bias_apart()) clear_bias(to_bias, from, from + seeing, std::min(start, call.keys), call.keys);
            if (call.to_query) {
                write_rows<S, T>(to_query.at, width, block.rows, call.dim, T(scale), out);
                query_directions.back(from, block.rows, out);
            }
        }
    }

    // What none of the rows first … last attends to, of keys from … to.
    void clear_bias(T* to_bias, int64_t first, int64_t last, int64_t from, int64_t to) const {
        for (int64_t r = first; r < last && from < to; ++r)
            std::memset(to_bias + r * call.keys + from, 0, (to - from) * sizeof(T));
    }

    void go_through_tile(const typename P::Tile& tile, int64_t line, T* to_bias) {
        const T* normalizer = reinterpret_cast<const T*>(call.normalizer) + line;
        for (int64_t n = 0; n < tile.strips(); n += P::kTogether) {
            P::product(tile, n, query, transposed_keys, weights.at, Idle());
            if (sloping) P::product(tile, n, above, transposed_values, slopes.at, Idle());
        }
        for (int64_t r = 0; r < tile.block.rows; ++r) {
            int64_t strip = r / P::kStrip, first = tile.first_panel(strip), last = tile.last_panel(strip);
            T *weight = weights.at + r * stride, *slope = slopes.at + r * stride;
            if (first == last) {  // the products over rows must find nothing there
                if (call.bias_apart())
                    write_bias(to_bias + (tile.block.first + r) * call.keys + tile.start, slope, 0, 0,
                               std::min(kTile<T>, call.keys - tile.start));
                if (call.keep.at) {
                    std::memset(weight, 0, tile.columns * sizeof(T));
                    std::memset(slope, 0, tile.columns * sizeof(T));
                }
                continue;
            }
            tile.finish(r, weight, first, last);
            if (call.dropped) Draws<T>(call, line + r).write(tile.start + first, last - first, draws.at);
            weigh(weight + first, sloping ? slope + first : nullptr, call.dropped ? draws.at : nullptr, last - first,
                  normalizer[r], through.at[r]);
            if (call.bias_apart())
                write_bias(to_bias + (tile.block.first + r) * call.keys + tile.start, slope, tile.begin[strip],
                           tile.end[strip], std::min(kTile<T>, call.keys - tile.start));
            else if (to_bias)
                into_bias(call.to_bias,
                          to_bias + (tile.block.first + r) * call.to_bias.row + tile.start * call.to_bias.column, slope,
                          tile.begin[strip], tile.end[strip]);
        }
        if (call.to_value) P::into_keys(tile, weights.at, above, to_value, room);
        if (call.to_key) P::into_keys(tile, slopes.at, query, to_key, room);
        if (call.to_query) P::read_all(tile, slopes.at, keys, width, to_query.at, room);
    }
};

// Each key head is one thread's, so that its gradients are added up in one order. Where heads or items share a bias, all
// that share it are one thread's; if that is all of them, each thread adds up its own, and these are added up at last.
template <typename S, typename T, typename P>
void backward(const Call& call, double scale) {
    using Plain = Vectors<S, T>;
    const View& bias = call.to_bias;
    const int64_t units = call.batch * call.key_heads, group = call.group();
    // Blocks are those of the forward pass: a fully masked one was not read, and may hold anything.
    const int64_t rows = call.rows(P::kStrip, P::kRows);
    const bool over_items = bias.at && bias.item == 0, over_heads = bias.at && bias.head == 0;
    const bool apart = over_items && over_heads && units > 1 && call.threads > 1;
    int64_t step = over_items ? call.batch : over_heads ? call.key_heads : 1;
    if (over_items && over_heads) step = apart ? (units + call.threads - 1) / call.threads : units;
    std::vector<std::vector<T>> parts(apart ? (units + step - 1) / step : 0);
    int64_t cost = 3 * call.batch * call.heads * call.queries * call.keys * (call.dim + call.value_dim);
    share(units, step, call.threads, cost, [&](int64_t from, int64_t to) {
        const typename P::Unit unit(call.unit != 0);
        std::optional<Backward<S, T, P>> fast;
        std::optional<Backward<S, T, Plain>> plain;
        Directions<S, T> key_directions(call.key_directions, call.keys, call.dim);
        Directions<S, T> query_directions(call.query_directions, call.queries, call.dim);
        for (int64_t at = from; at < to; ++at) {
            int64_t item = over_items ? at % call.batch : at / call.key_heads;
            int64_t key_head = over_items ? at / call.batch : at % call.key_heads;
            T* to_bias = bias.at ? bias.of<T>(item, key_head * group) : nullptr;
            if (apart) {
                auto& part = parts[at / step];
                part.resize(call.bias_size);
                to_bias = part.data();
            }
            const View own_key = key_directions.of(call.key, item, key_head, 0, call.length(item));
            auto go_through = [&](auto& way) {
                if (!way) way.emplace(call, scale, rows, key_directions, query_directions);
                way->go_through(own_key, item, key_head, to_bias, !apart);
            };
            if (unit && Backward<S, T, P>::fits(call, scale, own_key, query_directions, item, key_head))
                go_through(fast);
            else
                go_through(plain);
        }
    });
    for (const auto& part : parts)
        for (size_t n = 0; n < part.size(); ++n) reinterpret_cast<T*>(bias.at)[n] += part[n];
}

}  // namespace dot
