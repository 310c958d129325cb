// Products of dot.cpp's blocks and tiles by the processor's vectors, of float and double.

#pragma once

#include "dot/call.hpp"
#include "dot/pack.hpp"

namespace dot {

// C (rows × columns) = [C +] A · B, where B lies in panels of two vectors: panel n begins at b + n·panel.
template <typename T, bool kAdd>
__attribute__((noinline)) void by_panels(int64_t rows, int64_t columns, int64_t depth, const T* a, int64_t am,
                                         int64_t ak, const T* b, int64_t panel, T* c, int64_t cm) {
    for (int64_t n = 0; n < columns; n += kPanel<T>, b += panel)
        loops::multiply<T, kAdd>(rows, std::min(kPanel<T>, columns - n), depth, a, am, ak, b, kPanel<T>, c + n, cm);
}

template <typename S, typename T>
struct Vectors {
    static constexpr int64_t kStrip = dot::kStrip, kTogether = kMostStrips, kRows = 4 * kStrip;
    using Tile = dot::Tile<T, kStrip>;

    struct Unit {  // nothing to be set up
        explicit Unit(bool) {}
        explicit operator bool() const { return false; }
    };

    // Rows of a block.
    struct Lines {
        int64_t columns, width;
        Buffer<T> numbers;

        Lines(int64_t rows, int64_t columns, bool) : columns(columns), width(whole<T>(columns)), numbers(rows * width) {}
        void write(const View& view, int64_t rows, T factor) {  // the first of them
            rows_of<S, T>(view.of<const S>(0, 0), view.row, view.column, rows, columns, factor, numbers.at, width);
        }
    };
    // Keys or values of one head, to be multiplied by rows number by number …
    struct Turned {
        int64_t columns;
        Buffer<T> numbers;

        Turned(int64_t keys, int64_t columns) : columns(columns), numbers(panels(keys) * columns) {}
        void write(const View& view, int64_t item, int64_t head, int64_t size) {
            transposed_panels_of<S, T>(view.of<const S>(item, head), view.row, view.column, size, columns, numbers.at);
        }
    };
    // … or row by row.
    struct Straight {
        int64_t columns, room;
        Buffer<T> numbers;

        Straight(int64_t keys, int64_t columns)
            : columns(columns), room(panels(keys)), numbers(room * ((columns + kPanel<T> - 1) / kPanel<T> * kPanel<T>)) {}
        void write(const View& view, int64_t item, int64_t head, int64_t size) {
            panels_of<S, T>(view.of<const S>(item, head), view.row, view.column, size, columns, numbers.at, room);
        }
    };
    // The sums for the keys of one head.
    struct Sums {
        int64_t keys, columns, width;
        Buffer<T> numbers;

        Sums(int64_t keys, int64_t columns)
            : keys(keys), columns(columns), width(whole<T>(columns)), numbers(panels(keys) * width) {}
        void clear() { std::memset(numbers.at, 0, panels(keys) * width * sizeof(T)); }
        void write(T factor, S* to) const { write_rows<S, T>(numbers.at, width, keys, columns, factor, to); }
    };
    struct Room {};  // to work in

    // out = rows · keysᵀ, where the strips attend to something; all of them at once, with no work aside.
    template <typename Work>
    static void product(const Tile& tile, int64_t, const Lines& lines, const Turned& keys, T* out, Work&&) {
        const int64_t depth = lines.columns, am = lines.width;
        const T* b = keys.numbers.at + tile.start * depth;
        for (int64_t p = 0; p < tile.columns; p += kPanel<T>)
            for (int64_t n = 0; n < tile.strips(); ++n)
                if (tile.visible(n, p)) {
                    tile.fetch_bias(n, p);
                    by_panels<T, false>(tile.rows_of(n), kPanel<T>, depth, lines.numbers.at + n * kStrip * am, am, 1,
                                        b + p * depth, 0, out + n * kStrip * tile.stride + p, tile.stride);
                }
    }

    static void mend(const Tile&, int64_t, const Lines&, const View&, T*) {}  // nothing is amiss

    // Weights are wanted for what a strip attends to, and written where its scores were.
    static int64_t begin(const Tile& tile, int64_t n) { return tile.first_panel(n); }
    static int64_t end(const Tile& tile, int64_t n) { return tile.last_panel(n); }
    static auto writer(int64_t, T* to, Room&) {
        return [to](Vec<T> one, Vec<T> other) mutable {
            store(to, one), store(to + kLanes<T>, other);
            to += kPanel<T>;
        };
    }

    // out += weights · values, a row `width` numbers long.
    static void read(const Tile& tile, int64_t, const T* weights, const Straight& values, int64_t width, T* out, Room&) {
        for (int64_t c = 0; c < width; c += kPanel<T>)
            for (int64_t n = 0; n < tile.strips(); ++n)
                by_panels<T, true>(tile.rows_of(n), std::min(kPanel<T>, width - c), tile.end[n] - tile.begin[n],
                                   weights + n * kStrip * tile.stride + tile.begin[n], tile.stride, 1,
                                   values.numbers.at + c * values.room + (tile.start + tile.begin[n]) * kPanel<T>, 0,
                                   out + n * kStrip * width + c, width);
    }

    static void read_all(const Tile& tile, const T* weights, const Straight& values, int64_t width, T* out, Room& room) {
        read(tile, 0, weights, values, width, out, room);
    }

    // sums[keys] += weightsᵀ · rows, for the keys of a tile, from the rows whose strips attend to them.
    static void into_keys(const Tile& tile, const T* weights, const Lines& lines, Sums& sums, Room&) {
        const int64_t strips = tile.strips(), width = lines.width;
        auto seen_by = [&](int64_t panel, int64_t& first, int64_t& last) {
            first = strips, last = 0;
            for (int64_t n = 0; n < strips; ++n)
                if (tile.visible(n, panel)) first = std::min(first, n), last = n + 1;
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
                loops::multiply<T, true>(size, std::min(kPanel<T>, width - c), depth,
                                         weights + row * tile.stride + panel, 1, tile.stride,
                                         lines.numbers.at + row * width + c, width,
                                         sums.numbers.at + (tile.start + panel) * width + c, width);
        }
    }

  private:
    static int64_t panels(int64_t keys) { return (keys + kPanel<T> - 1) / kPanel<T> * kPanel<T>; }
};

}  // namespace dot
