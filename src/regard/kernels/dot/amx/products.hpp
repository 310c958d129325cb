// Products of dot.cpp's blocks and tiles by the processor's matrix unit, of float: what `vectors.hpp` has of vectors.

#pragma once

#include <vector>

#include "dot/amx/blocks.hpp"

#ifdef DOT_MATRIX_UNIT

namespace dot {

template <typename S>
struct Matrix {
    using T = float;
    static constexpr int64_t kStrip = 16, kTogether = 2, kRows = kMostRows, kChunk = 32;
    static_assert(kChunk == kPanel<T>);
    using Tile = dot::Tile<T, kStrip>;

    static int64_t chunks(int64_t size) { return (size + kChunk - 1) / kChunk; }
    static int64_t strips(int64_t size) { return (size + kStrip - 1) / kStrip; }

    using Unit = tiles::Held;

    // Rows of a block, as numbers and as tiles; transposed as well if they are to be added to sums.
    struct Lines {
        int64_t columns, width, along;
        Buffer<T> numbers;
        Buffer<char> tiles, transposed;

        Lines(int64_t rows, int64_t columns, bool across)
            : columns(columns),
              width(whole<T>(columns)),
              along(chunks(columns) * kThree),
              numbers(chunks(rows) * kChunk * width),
              tiles(strips(rows) * along),
              transposed(across ? chunks(rows) * strips(columns) * kThree : 0),
              across(across) {}
        // The first rows of a view. Those with numbers that are too large are kept in mind, and 0 for the unit.
        void write(const View& view, int64_t rows, T factor) {
            rows_of<S, T>(view.of<const S>(0, 0), view.row, view.column, rows, columns, factor, numbers.at, width);
            std::memset(numbers.at + rows * width, 0, (chunks(rows) * kChunk - rows) * width * sizeof(T));
            odd.clear();
            for (int64_t r = 0; r < strips(rows) * kStrip; ++r) {
                const bool fits = is_small(r);
                if (!fits) odd.push_back(r);
                for (int64_t c = 0; c < columns; c += kChunk)
                    put_pairs(fits ? part(r, c) : _mm512_setzero_ps(), fits ? part(r, c + kStrip) : _mm512_setzero_ps(),
                              tile(r / kStrip) + c / kChunk * kThree + r % kStrip * 64);
            }
            if (across) turn_all(rows);
        }
        char* tile(int64_t strip) const { return tiles.at + strip * along; }

        std::vector<int64_t> odd;

      private:
        bool across;
        __m512 part(int64_t r, int64_t c) const {
            return c < width ? _mm512_loadu_ps(numbers.at + r * width + c) : _mm512_setzero_ps();
        }
        bool is_small(int64_t r) const {
            __mmask16 large = 0;  // NaN is no smaller
            for (int64_t c = 0; c < width; c += kStrip)
                large |= _mm512_cmp_ps_mask(_mm512_abs_ps(part(r, c)), _mm512_set1_ps(kLargest), _CMP_NLE_UQ);
            return large == 0;
        }
        void turn_all(int64_t rows) {
            for (int64_t chunk = 0; chunk < chunks(rows); ++chunk)
                for (int64_t c = 0; c < width; c += kStrip) {
                    Vec<T> one[kStrip], other[kStrip];
                    for (int64_t i = 0; i < kStrip; ++i) {
                        one[i] = (Vec<T>)part(chunk * kChunk + i, c);
                        other[i] = (Vec<T>)part(chunk * kChunk + kStrip + i, c);
                    }
                    turn<T>(one), turn<T>(other);
                    char* to = transposed.at + (c / kStrip * chunks(rows) + chunk) * kThree;
                    for (int64_t i = 0; i < kStrip; ++i) put_pairs((__m512)one[i], (__m512)other[i], to + i * 64);
                }
        }
    };
    // Keys or values of one head, to be multiplied by rows number by number: by 16 keys, 32 numbers of each …
    struct Turned {
        int64_t columns;
        Buffer<char> tiles;
        Buffer<T> few;

        Turned(int64_t keys, int64_t columns)
            : columns(columns), tiles(2 * chunks(keys) * chunks(columns) * kThree), few(kStrip * width()) {}
        int64_t width() const { return chunks(columns) * kChunk; }
        int64_t across() const { return chunks(columns) * kThree; }
        void write(const View& view, int64_t item, int64_t head, int64_t size) {
            const S* from = view.of<const S>(item, head);
            char* to = tiles.at;
            for (int64_t k = 0; k < chunks(size) * kChunk; k += kStrip) {
                const Some lines(from + k * view.row, view, size - k, kStrip, columns, few.at, width());
                for (int64_t c = 0; c < columns; c += kChunk, to += kThree) {
                    Vec<T> one[kStrip], other[kStrip];
                    for (int64_t i = 0; i < kStrip; ++i) one[i] = load(lines.at + i * lines.row + c);
                    for (int64_t i = 0; i < kStrip; ++i) other[i] = load(lines.at + i * lines.row + c + kStrip);
                    turn<T>(one), turn<T>(other);
                    for (int64_t i = 0; i < kStrip; ++i) put_pairs((__m512)one[i], (__m512)other[i], to + i * 64);
                }
            }
        }
    };
    // … or row by row: by 32 keys, 16 numbers of each.
    struct Straight {
        int64_t columns;
        Buffer<char> tiles;
        Buffer<T> few;

        Straight(int64_t keys, int64_t columns)
            : columns(columns), tiles(chunks(keys) * strips(columns) * kThree), few(kChunk * width()) {}
        int64_t width() const { return whole<T>(columns); }
        int64_t along() const { return strips(columns) * kThree; }
        void write(const View& view, int64_t item, int64_t head, int64_t size) {
            const S* from = view.of<const S>(item, head);
            char* to = tiles.at;
            for (int64_t k = 0; k < size; k += kChunk) {
                const Some lines(from + k * view.row, view, size - k, kChunk, columns, few.at, width());
                for (int64_t c = 0; c < width(); c += kStrip, to += kThree)
                    for (int64_t i = 0; i < kStrip; ++i) {
                        const T* line = lines.at + i * lines.row + c;
                        put_pairs(_mm512_loadu_ps(line), _mm512_loadu_ps(line + kStrip * lines.row), to + i * 64);
                    }
            }
        }
    };
    // The sums for the keys of one head, transposed.
    struct Sums {
        int64_t keys, columns, room;
        Buffer<T> numbers;

        Sums(int64_t keys, int64_t columns)
            : keys(keys), columns(columns), room(chunks(keys) * kChunk), numbers(room * whole<T>(columns)) {}
        void clear() { std::memset(numbers.at, 0, room * whole<T>(columns) * sizeof(T)); }
        void write(T factor, S* to) const {
            T few[kStrip * kStrip];
            for (int64_t k = 0; k < keys; k += kStrip)
                for (int64_t c = 0; c < columns; c += kStrip) {
                    Vec<T> square[kStrip];
                    for (int64_t i = 0; i < kStrip; ++i) square[i] = load(numbers.at + (c + i) * room + k);
                    turn<T>(square);
                    for (int64_t i = 0; i < kStrip; ++i) store(few + i * kStrip, square[i]);
                    for (int64_t i = 0; i < std::min(kStrip, keys - k); ++i)
                        write_rows<S, T>(few + i * kStrip, 0, 1, std::min(kStrip, columns - c), factor,
                                         to + (k + i) * columns + c);
                }
        }
    };
    // Weights as tiles: of two strips and a dozen chunks of keys, or of all strips and one chunk.
    struct Room {
        static constexpr int64_t kAcross = kTile<T> / kChunk * kThree;
        Buffer<char> tiles;

        Room() : tiles(2 * kAcross) { std::memset(tiles.at, 0, 2 * kAcross); }
    };

    // out = rows · keysᵀ, where the strips from n on attend to something.
    template <typename Work>
    static void product(const Tile& tile, int64_t n, const Lines& lines, const Turned& keys, T* out, Work&& work) {
        const int64_t depth = chunks(lines.columns);
        const bool more = n + 1 < tile.strips();
        Aside<std::remove_reference_t<Work>> aside{work, tile.columns / kChunk * depth * 6};
        for (int64_t p = 0; p < tile.columns; p += kChunk) {
            const bool first = tile.visible(n, p), second = more && tile.visible(n + 1, p);
            if (!first && !second) continue;
            const Side b{keys.tiles.at + (tile.start + p) / kStrip * keys.across(), kThree, keys.across()};
            const int64_t from = first ? n : n + 1;
            for (int64_t i = from; i < from + first + second; ++i) tile.fetch_bias(i, p);
            multiply(first && second, true, depth, {lines.tile(from), kThree, lines.along}, b,
                     out + from * kStrip * tile.stride + p, tile.stride, aside);
        }
        aside.rest();
    }

    // Scores of the rows that the unit was not given.
    static void mend(const Tile& tile, int64_t n, const Lines& lines, const View& view, T* out) {
        for (int64_t r : lines.odd) {
            if (r / kStrip < n || r / kStrip > n + 1) continue;
            const S* from = view.of<const S>(0, 0) + tile.start * view.row;
            const T* line = lines.numbers.at + r * lines.width;
            for (int64_t c = tile.begin[r / kStrip]; c < tile.end[r / kStrip]; ++c) {
                T total = 0;
                for (int64_t d = 0; d < lines.columns; ++d)
                    total += line[d] * number(from[c * view.row + d * view.column]);
                out[r * tile.stride + c] = total;
            }
        }
    }

    // The first key that a strip and the one beside it attend to of a tile, and the end of them, in whole panels.
    static int64_t begin(const Tile& tile, int64_t strip) {
        const int64_t n = strip / 2 * 2;
        const bool more = n + 1 < tile.strips() && tile.end[n + 1];
        if (!more) return tile.first_panel(n);
        return tile.end[n] ? std::min(tile.first_panel(n), tile.first_panel(n + 1)) : tile.first_panel(n + 1);
    }
    static int64_t end(const Tile& tile, int64_t strip) {
        const int64_t n = strip / 2 * 2;
        return n + 1 < tile.strips() ? std::max(tile.last_panel(n), tile.last_panel(n + 1)) : tile.last_panel(n);
    }

    // The weights of one of their rows, as the unit takes them; 0 where it attends to none.
    static void lay(const Tile& tile, int64_t n, int64_t row, const T* weights, int64_t from, int64_t to, Room& room) {
        const int64_t strip = row / kStrip, low = tile.first_vector(strip), high = tile.last_vector(strip);
        weights += row * tile.stride;
        auto part = [&](int64_t c) { return low <= c && c < high ? _mm512_loadu_ps(weights + c) : _mm512_setzero_ps(); };
        char* at = room.tiles.at + (strip - n) * Room::kAcross + row % kStrip * 64;
        for (int64_t c = from; c < to; c += kChunk, at += kThree) put_pairs(part(c), part(c + kStrip), at);
    }
    // Writes the weights of one of their rows as the unit takes them, panel by panel.
    static auto writer(int64_t row, T*, Room& room) {
        char* at = room.tiles.at + row / kStrip % kTogether * Room::kAcross + row % kStrip * 64;
        return [at](Vec<T> one, Vec<T> other) mutable {
            put_pairs((__m512)one, (__m512)other, at);
            at += kThree;
        };
    }

    // out += weights · values, a row `width` numbers long, of strips n and n + 1; their weights from … to were laid.
    static void read(const Tile& tile, int64_t n, int64_t from, int64_t to, const Straight& values, int64_t width, T* out,
                     Room& room) {
        const char* b = values.tiles.at + (tile.start + from) / kChunk * values.along();
        if (from < to)
            for (int64_t c = 0; c < width; c += 2 * kStrip)
                add(n + 1 < tile.strips(), c + kStrip < width, (to - from) / kChunk,
                    {room.tiles.at, kThree, Room::kAcross}, {b + c / kStrip * kThree, values.along(), kThree},
                    out + n * kStrip * width + c, width);
    }
    static void read(const Tile& tile, int64_t n, const T*, const Straight& values, int64_t width, T* out, Room& room) {
        read(tile, n, begin(tile, n), end(tile, n), values, width, out, room);
    }
    // The same of all strips, from weights that were not laid.
    static void read_all(const Tile& tile, const T* weights, const Straight& values, int64_t width, T* out, Room& room) {
        for (int64_t n = 0; n < tile.strips(); n += 2)
            for (int64_t from = begin(tile, n), to; from < end(tile, n); from = to) {
                to = std::min(end(tile, n), from + kTile<T>);
                for (int64_t r = n * kStrip; r < std::min((n + 2) * kStrip, tile.block.rows); ++r)
                    lay(tile, n, r, weights, from, to, room);
                read(tile, n, from, to, values, width, out, room);
            }
    }

    // sums[keys] += weightsᵀ · rows, for the keys of a tile, from the rows whose strips attend to them.
    static void into_keys(const Tile& tile, const T* weights, const Lines& lines, Sums& sums, Room& room) {
        const int64_t all = chunks(tile.block.rows), width = lines.width;
        for (int64_t panel = 0; panel < tile.columns; panel += kChunk) {
            int64_t first = all, last = 0;
            for (int64_t n = 0; n < tile.strips(); ++n)
                if (tile.visible(n, panel)) first = std::min(first, n / 2), last = n / 2 + 1;
            if (first >= last) continue;
            for (int64_t chunk = first; chunk < last; ++chunk)
                for (int64_t i = 0; i < 2; ++i)
                    for (int64_t r = 0; r < kStrip; ++r)
                        put_pairs(weight(tile, weights, 2 * chunk, r, panel + i * kStrip),
                                  weight(tile, weights, 2 * chunk + 1, r, panel + i * kStrip),
                                  room.tiles.at + ((chunk - first) * 2 + i) * kThree + r * 64);
            for (int64_t c = 0; c < width; c += 2 * kStrip)
                add(c + kStrip < width, true, last - first,
                    {lines.transposed.at + (c / kStrip * all + first) * kThree, kThree, all * kThree},
                    {room.tiles.at, 2 * kThree, kThree}, sums.numbers.at + c * sums.room + tile.start + panel,
                    sums.room);
        }
    }

  private:
    // 16 weights of a strip's row, 0 where it attends to none.
    static __m512 weight(const Tile& tile, const T* weights, int64_t strip, int64_t row, int64_t column) {
        if (strip >= tile.strips() || row >= tile.rows_of(strip) || column < tile.first_vector(strip) ||
            column >= tile.last_vector(strip))
            return _mm512_setzero_ps();
        return _mm512_loadu_ps(weights + (strip * kStrip + row) * tile.stride + column);
    }
    // `rows` rows of a view, `width` numbers long, those past `size` 0: where they lie if they can be taken from there.
    struct Some {
        const T* at;
        int64_t row;

        Some(const S* from, const View& view, int64_t size, int64_t rows, int64_t columns, T* room, int64_t width)
            : at(room), row(width) {
            if constexpr (std::is_same_v<S, T>)
                if (view.column == 1 && columns == width && size >= rows) {
                    at = from, row = view.row;
                    return;
                }
            size = std::max<int64_t>(0, std::min(size, rows));
            rows_of<S, T>(from, view.row, view.column, size, columns, T(1), room, width);
            std::memset(room + size * width, 0, (rows - size) * width * sizeof(T));
        }
    };
};

}  // namespace dot

#endif
