"""Keys and values of many sequences of different lengths, and attention over them.

The new tokens of all sequences go through the model packed: one after another, no padding. Each sequence's keys and
values stay in its own row of the cache, at its own positions, for as long as its episode lasts.

Shapes: N new tokens, B rows in use, H query heads, K key/value heads (H = K G), D head size, L longest row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

#: Positions that a row has room for at first; doubled as rows outgrow it.
FIRST_CAPACITY = 256
#: Most tokens of one row whose scores exist at once.
TILE = 256


@dataclass
class Chunks:
    """The new tokens of all rows in use, packed, and how they see the cache.

    Attributes:
        rows, positions: (N,) where each token's keys and values go.
        last: (B,) index of each row's last new token among the N.
        mask: (B K, 1, L) added to the scores of the rows' last tokens: 0, or -inf beyond the row's end.
        longer: the new tokens before the last of a row, in pieces: (row, first index among the N, number of tokens,
            position of the first).
        copies: rows that begin as another one does: (that row, this row, number of positions taken over).
    """

    rows: Tensor
    positions: Tensor
    last: Tensor
    mask: Tensor
    longer: list[tuple[int, int, int, int]]
    copies: list[tuple[int, int, int]]


class RaggedCache:
    """The cache: `rows` sequences at most, each with its own length.

    Rows in use are always the first ones. The memory is layers x rows x capacity x 2 K D numbers; the capacity grows
    with the longest row, up to `limit`.

    Attributes:
        lengths: positions filled, of each row in use.
    """

    def __init__(
        self, layers: int, rows: int, heads: int, size: int, limit: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.limit = limit
        self.lengths: list[int] = []
        self._shape = (rows, heads, size)
        self._future = torch.full((TILE, TILE), -torch.inf, dtype=dtype, device=device).triu_(1)
        # Keys and values. Zeros: what lies beyond a row's end is read with weight 0, and must be a number.
        shape = (2, rows, heads, min(FIRST_CAPACITY, limit), size)
        self._kept = [torch.zeros(shape, dtype=dtype, device=device) for _ in range(layers)]

    def open(self) -> int:
        """Take a free row into use and return its index."""
        self.lengths.append(0)
        return len(self.lengths) - 1

    def close(self, row: int) -> None:
        """Give a row up; the last row in use moves into its place."""
        last = len(self.lengths) - 1
        if row != last:
            self._copy(last, row, self.lengths[last])
            self.lengths[row] = self.lengths[last]
        self.lengths.pop()

    def place(self, counts: Sequence[int], copies: Sequence[tuple[int, int, int]] = ()) -> Chunks:
        """Make room for new tokens.

        Args:
            counts: of each row in use. Where it is 0, one token that stands for nothing must be read: it is written
                beyond the row's end, and does not count.
            copies: (source row, row, length): a row that begins with the first `length` new tokens of another, and
                takes their keys and values over; both are empty so far.
        """
        for _, row, length in copies:
            self.lengths[row] = length
        before = self.lengths
        read = [max(count, 1) for count in counts]
        after = [length + count for length, count in zip(before, read, strict=True)]
        self._reserve(max(after))
        device = self._kept[0].device
        amounts = torch.tensor(read)
        ends = amounts.cumsum(0)
        starts = ends - amounts
        rows = torch.arange(len(counts)).repeat_interleave(amounts)
        offsets = torch.tensor(before) - starts
        positions = torch.arange(int(ends[-1])) + offsets[rows]
        beyond = torch.arange(max(after)) >= torch.tensor(after)[:, None]
        mask = torch.zeros(beyond.shape, dtype=self._kept[0].dtype).masked_fill_(beyond, -torch.inf)
        longer = [
            (row, start + tile, min(TILE, count - 1 - tile), length + tile)
            for row, (start, count, length) in enumerate(zip(starts.tolist(), read, before, strict=True))
            for tile in range(0, count - 1, TILE)
        ]
        self.lengths = [length + count for length, count in zip(before, counts, strict=True)]
        return Chunks(
            rows.to(device),
            positions.to(device),
            (ends - 1).to(device),
            mask.repeat_interleave(self._shape[1], 0)[:, None].to(device),
            longer,
            list(copies),
        )

    def attend(self, layer: int, chunks: Chunks, queries: Tensor, fresh: Tensor) -> Tensor:
        """Write the new keys and values of a layer, and let the new tokens attend to their rows' past.

        Args:
            queries: (N, H, D), rotated and scaled.
            fresh: (N, 2, K, D), the keys, rotated, and the values.

        Returns:
            (N, H, D), in the cache's dtype.
        """
        kept = self._kept[layer]
        kept[:, chunks.rows, :, chunks.positions] = fresh.to(kept.dtype)
        for source, row, length in chunks.copies:
            kept[:, row, :, :length] = kept[:, source, :, :length]
        # (N, K, G, D)
        queries = queries.to(kept.dtype).unflatten(1, (fresh.shape[2], -1))
        out = torch.empty_like(queries)
        _, _, shared, size = queries.shape

        # The last new token of every row, all rows at once.
        keys, values = kept[:, : len(self.lengths)].flatten(1, 2)[:, :, : chunks.mask.shape[-1]]
        scores = torch.baddbmm(chunks.mask, queries[chunks.last].flatten(0, 1), keys.transpose(1, 2))
        attended = torch.bmm(torch.softmax(scores, -1), values)
        out[chunks.last] = attended.view(-1, *queries.shape[1:])

        # The tokens before it, row by row: few rows have any.
        for row, start, number, before in chunks.longer:
            keys, values = kept[:, row, :, : before + number]
            q = queries[start : start + number].transpose(0, 1).reshape(-1, number * shared, size)
            scores = torch.bmm(q, keys.transpose(1, 2))
            scores.view(-1, number, shared, before + number)[..., before:] += self._future[:number, None, :number]
            attended = torch.bmm(torch.softmax(scores, -1), values)
            out[start : start + number] = attended.view(-1, number, shared, size).transpose(0, 1)
        return out.flatten(1, 2)

    def rewind(self, row: int, length: int) -> None:
        """Forget what a row holds beyond `length` positions."""
        self.lengths[row] = min(self.lengths[row], length)

    def _copy(self, source: int, target: int, length: int) -> None:
        for kept in self._kept:
            kept[:, target, :, :length] = kept[:, source, :, :length]

    def _reserve(self, length: int) -> None:
        capacity = self._kept[0].shape[3]
        if length <= capacity:
            return
        if length > self.limit:
            raise ValueError(f"{length} positions, beyond the cache's limit of {self.limit}")
        rows, heads, size = self._shape
        larger = min(self.limit, max(length, 2 * capacity))
        for layer, old in enumerate(self._kept):
            self._kept[layer] = old.new_zeros(2, rows, heads, larger, size)
            self._kept[layer][:, : len(self.lengths), :, :capacity] = old[:, : len(self.lengths)]
