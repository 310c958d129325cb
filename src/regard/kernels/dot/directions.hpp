// Rows divided by their lengths, for scores that are cosines, and the gradients of rows from those of their directions.
//
// With x = |x| u, what comes to u as g comes to x as (g − u (u·g)) / |x|. A row shorter than 1e-12 has no direction and
// becomes 0, with gradient 0, as in `functional.unit`.

#pragma once

#include "dot/pack.hpp"

namespace dot {

constexpr double kNoDirection = 1e-12;

// The directions of some rows of a head where they are wanted, else the rows themselves; only of the type computed in.
template <typename S, typename T>
class Directions {
  public:
    Directions(bool wanted, int64_t rows, int64_t columns)
        : wanted(wanted && std::is_same_v<S, T>),
          columns(columns),
          width(whole<T>(columns)),
          numbers(this->wanted ? whole<T>(rows) * width : 0),
          inverse(this->wanted ? whole<T>(rows) : 0) {}

    // The rows first … first + rows of a head; the view that is returned begins with them.
    View of(const View& view, int64_t item, int64_t head, int64_t first, int64_t rows) {
        const View given = view.rows<S>(item, head, first);
        if (!wanted) return given;
        constexpr int64_t L = kLanes<T>;
        rows_of<S, T>(given.of<const S>(0, 0), given.row, given.column, rows, columns, T(1), numbers.at, width);
        std::memset(numbers.at + rows * width, 0, (whole<T>(rows) - rows) * width * sizeof(T));
        for (int64_t r = 0; r < rows; r += L) {
            Vec<T> squares[L];
            for (int64_t i = 0; i < L; ++i) {
                squares[i] = Vec<T>{};
                for (int64_t c = 0; c < width; c += L) {
                    Vec<T> some = load(numbers.at + (r + i) * width + c);
                    squares[i] += some * some;
                }
            }
            store(inverse.at + r, loops::totals<T>(squares));
            for (int64_t i = 0; i < L; ++i) {
                const T total = inverse.at[r + i];
                inverse.at[r + i] = total < std::numeric_limits<T>::infinity() ? of_length(std::sqrt(total))
                                                                               : of_long(numbers.at + (r + i) * width);
            }
            for (int64_t i = 0; i < L; ++i)
                for (int64_t c = 0; c < width; c += L) {
                    T* some = numbers.at + (r + i) * width + c;
                    store(some, load(some) * inverse.at[r + i]);
                }
        }
        return {reinterpret_cast<int64_t>(numbers.at), 0, 0, width, 1};
    }

    // Gradients of directions, rows from `first` on of those that were returned last, become those of the rows.
    void back(int64_t first, int64_t rows, S* gradients) const {
        if (!wanted) return;
        for (int64_t r = first; r < first + rows; ++r, gradients += columns) {
            const T* line = numbers.at + r * width;
            T* slopes = reinterpret_cast<T*>(gradients);
            Vec<T> sums{};
            int64_t c = 0;
            for (; c + kLanes<T> <= columns; c += kLanes<T>) sums += load(line + c) * load(slopes + c);
            T along = loops::sum<T>(sums), by = inverse.at[r];
            for (; c < columns; ++c) along += line[c] * slopes[c];
            for (c = 0; c < columns; ++c) slopes[c] = by == 0 ? T(0) : (slopes[c] - line[c] * along) * by;
        }
    }

  private:
    const bool wanted;
    const int64_t columns, width;
    Buffer<T> numbers, inverse;

    static T of_length(T length) { return length <= T(kNoDirection) ? T(0) : 1 / length; }  // NaN stays one
    // Of a row whose squares are too large: it is made shorter first. NaN of one that is not finite.
    T of_long(T* line) const {
        T most = 0;
        for (int64_t c = 0; c < columns; ++c) most = std::max(most, std::abs(line[c]));
        T squares = 0;
        for (int64_t c = 0; c < columns; ++c) squares += line[c] / most * (line[c] / most);
        return 1 / std::sqrt(squares) / most;
    }
};

}  // namespace dot
