// softmax(scale · q kᵀ + bias) v, without the table of queries × keys.

#pragma once

#include <optional>

#include "dot/call.hpp"
#include "dot/directions.hpp"
#include "dot/pack.hpp"
#include "dot/vectors.hpp"

namespace dot {

// Scores so small need no maximum taken off: 2^±32, and values below 2^50, can be added up 2^30 times.
constexpr double kSmall = 32, kSmallValue = 1125899906842624;

// One block's way through the tiles: each row's maximum and sum.
template <typename T>
struct Softmax {
    T top[kMostRows];
    bool small[kMostRows];
    bool safe;  // whether the queries are finite, and so are their squares together
    Vec<T> total[kMostRows];

    // No score is larger than the norms of its query and of the longest key together (Cauchy-Schwarz).
    Softmax(const T* query, int64_t rows, int64_t width, T longest) {
        constexpr int64_t L = kLanes<T>;
        Vec<T> all{};
        for (int64_t first = 0; first < rows; first += L) {
            Vec<T> squares[L] = {};
            for (int64_t i = 0; i < std::min(L, rows - first); ++i, query += width)
                for (int64_t c = 0; c < width; c += L) squares[i] += load(query + c) * load(query + c);
            const Vec<T> norms = loops::totals<T>(squares);
            all += norms;
            for (int64_t i = 0; i < std::min(L, rows - first); ++i) {
                const int64_t r = first + i;
                small[r] = norms[i] * longest <= T(kSmall * kSmall);
                top[r] = small[r] ? 0 : kNever<T>, total[r] = Vec<T>{};
            }
        }
        safe = loops::sum<T>(all) <= std::numeric_limits<T>::max();
    }
    // Scores become weights under the maximum until now, which are written panel by panel; says what weights until now
    // are to be multiplied by.
    template <typename Write>
    T row(int64_t r, const T* scores, int64_t from, int64_t to, Write&& write) {
        constexpr int64_t L = kLanes<T>;
        T factor = 1;
        if (!small[r]) {
            Vec<T> most = loops::all<T>(top[r]);
            for (int64_t c = from; c < to; c += L) most = loops::larger<T>(most, load(scores + c));
            const T old = top[r], now = or_zero(top[r] = loops::largest<T>(most));
            // Until now all weights were 0, or they are to be multiplied.
            if (old != now && old > kNever<T>) factor = loops::power_of_two<T>(loops::all<T>(old - now))[0];
        }
        const T most = or_zero(top[r]);
        Vec<T> sum{};
        for (int64_t c = from; c < to; c += 2 * L) {
            Vec<T> one = loops::power_of_two<T>(load(scores + c) - most);
            Vec<T> other = loops::power_of_two<T>(load(scores + c + L) - most);
            sum += one + other;
            write(c, one, other);
        }
        total[r] = total[r] * factor + sum;
        return factor;
    }

  private:
    static T or_zero(T most) { return most > kNever<T> ? most : 0; }  // of a fully masked row, or NaN
};

// What one thread needs to go through the blocks of one head of keys.
template <typename S, typename T, typename P>
class Forward {
  public:
    Forward(const Call& call, double scale, int64_t rows)
        : call(call),
          factor(T(scale * kLog2e)),
          rows(rows),
          most(std::min((call.keys + kPanel<T> - 1) / kPanel<T> * kPanel<T>, kTile<T>)),
          width(whole<T>(call.value_dim)),
          keys(call.keys, call.dim),
          values(call.keys, call.value_dim),
          query(rows, call.dim, false),
          directions(call.query_directions, rows, call.dim),
          scores((rows + kPanel<T>) * (most + kLanes<T>)),
          context((rows + kPanel<T>) * width),
          draws(most) {}

    // Keys (themselves or their directions) and values of a head; the square of the longest key's norm, or inf.
    void begin(const View& key, int64_t item, int64_t head, T square) {
        own_key = key;
        keys.write(key, 0, 0, call.length(item));
        values.write(call.value, item, head, call.length(item));
        longest = square;
    }

    void attend(Block block) {
        const int64_t all = block.narrow(call), seeing = block.begin < block.end ? block.rows : 0;
        int64_t line = (block.item * call.heads + block.head) * call.queries + block.first;  // its first row among all
        S* out = reinterpret_cast<S*>(call.context) + line * call.value_dim;
        T* normalizer = reinterpret_cast<T*>(call.normalizer);
        std::memset(out + seeing * call.value_dim, 0, (all - seeing) * call.value_dim * sizeof(S));
        if (normalizer) std::fill_n(normalizer + line + seeing, all - seeing, -kNever<T>);
        if (seeing == 0) return;
        query.write(directions.of(call.query, block.item, block.head, block.first, block.rows), block.rows, factor);
        std::memset(context.at, 0, (block.rows + kPanel<T>) * width * sizeof(T));
        Softmax<T> softmax(query.numbers.at, block.rows, query.width, longest);
        if (!softmax.safe) call.warn();
        std::optional<Rows> before;
        for (int64_t start = block.begin / kPanel<T> * kPanel<T>; start < block.end; start += kTile<T>) {
            const typename P::Tile tile(call, block, start, most);
            for (int64_t n = 0; n < tile.strips(); n += P::kTogether) {
                // The rows before these are weighed while the unit multiplies, if it does; those of the tile before,
                // too, if there is room for the scores of both.
                if (before && tile.strips() <= P::kTogether) before->finish();
                if (before)
                    P::product(tile, n, query, keys, scores.at, *before), before->finish();
                else
                    P::product(tile, n, query, keys, scores.at, Idle());
                P::mend(tile, n, query, own_key, scores.at);
                const int64_t first = n * P::kStrip, size = std::min(P::kTogether * P::kStrip, block.rows - first);
                before.emplace(Rows{*this, tile, softmax, line, n, first, size});
            }
        }
        before->finish();
        for (int64_t r = 0; r < block.rows; ++r) {
            T total = loops::sum<T>(softmax.total[r]);
            write_rows<S, T>(context.at + r * width, width, 1, call.value_dim, total == 0 ? T(0) : 1 / total,
                             out + r * call.value_dim);
            // A fully masked row is far below its maximum on the backward pass, too.
            if (normalizer) normalizer[line + r] = total == 0 ? -kNever<T> : softmax.top[r] + std::log2(total);
        }
    }

  private:
    const Call& call;
    const T factor;
    const int64_t rows, most, width;
    T longest = 0;
    View own_key{};

    // The scores of some rows become weights, row by row, and values are read with them.
    struct Rows {
        Forward& of;
        const typename P::Tile tile;
        Softmax<T>& softmax;
        int64_t line, strip, first, size;
        int64_t left = size;

        void step() {
            of.weigh(tile, softmax, line, first + size - left);
            --left;
        }
        void finish() {
            while (left > 0) step();
            if (size > 0) P::read(tile, strip, of.scores.at, of.values, of.width, of.context.at, of.room);
            size = 0;
        }
    };
    void weigh(const typename P::Tile& tile, Softmax<T>& softmax, int64_t line, int64_t r) {
        const int64_t strip = r / P::kStrip, from = P::begin(tile, strip), to = P::end(tile, strip);
        if (from >= to) return;
        T* here = scores.at + r * tile.stride;
        tile.finish(r, here, from, to);
        if (call.dropped) Draws<T>(call, line + r).write(tile.start + from, to - from, draws.at);
        auto write = P::writer(r, here + from, room);
        const T scale = softmax.row(r, here, from, to, [&](int64_t c, Vec<T> one, Vec<T> other) {
            if (call.dropped) one *= load(draws.at + c - from), other *= load(draws.at + c - from + kLanes<T>);
            write(one, other);
        });
        if (scale != 1) {
            T* sums = context.at + r * width;
            for (int64_t c = 0; c < width; c += kLanes<T>) store(sums + c, load(sums + c) * scale);
        }
    }
    typename P::Turned keys;
    typename P::Straight values;
    typename P::Lines query;
    Directions<S, T> directions;
    Buffer<T> scores, context, draws;
    typename P::Room room;
};

template <typename S, typename T, typename P>
void forward(const Call& call, double scale) {
    using Plain = Vectors<S, T>;
    const int64_t group = call.group(), rows = call.rows(P::kStrip, P::kRows);
    const int64_t blocks = rows ? (call.queries + rows - 1) / rows : 0, each = group * blocks;
    int64_t cost = call.batch * call.heads * call.queries * call.keys * (call.dim + call.value_dim);
    share(call.batch * call.key_heads * each, 1, call.threads, cost, [&](int64_t from, int64_t to) {
        const typename P::Unit unit(call.unit != 0);
        std::optional<Forward<S, T, P>> fast;
        std::optional<Forward<S, T, Plain>> plain;
        Directions<S, T> directions(call.key_directions, call.keys, call.dim);
        Directions<S, T> query_directions(call.query_directions, call.queries, call.dim);
        // The backward pass leaves all of a head to vectors if not all queries fit; it must find the scores that were here.
        auto queries_fit = [&](int64_t item, int64_t key_head) {
            bool all = true;
            for (int64_t head = key_head * group; all && head < (key_head + 1) * group; ++head)
                all = Reach<T>::template of<S>(query_directions.of(call.query, item, head, 0, call.valid_queries(item)), 0, 0,
                                               call.valid_queries(item), call.dim, T(scale * kLog2e)).fits;
            return all;
        };
        for (int64_t at = from; at < to;) {
            int64_t head = at / each, stop = std::min(to, (head + 1) * each);
            int64_t item = head / call.key_heads, key_head = head % call.key_heads, size = call.length(item);
            const View own_key = directions.of(call.key, item, key_head, 0, size);
            auto key = Reach<T>::template of<S>(own_key, 0, 0, size, call.dim, 1);
            auto value = Reach<T>::template of<S>(call.value, item, key_head, size, call.value_dim, 1);
            if (!key.safe || !value.safe) call.warn();
            bool calm = !call.bias.at && value.largest <= T(kSmallValue * kSmallValue);
            T longest = calm ? key.longest : -kNever<T>;
            auto go_through = [&](auto& way) {
                if (!way) way.emplace(call, scale, rows);
                way->begin(own_key, item, key_head, longest);
                for (; at < stop; ++at) {
                    int64_t within = at % each;
                    way->attend(Block(call, item, key_head * group + within / blocks, within % blocks * rows, rows));
                }
            };
            if (unit && key.fits && value.fits && (!call.normalizer || queries_fit(item, key_head)))
                go_through(fast);
            else
                go_through(plain);
        }
    });
}

}  // namespace dot
