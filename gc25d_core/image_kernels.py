"""Compiled pixel loops: PNG filters, nearest and area resampling, histograms. One thread, integers only, exact."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def png_unfilter(raw):
    """Undoes the row filters of an 8-bit greyscale PNG (specification, section 9).

    `raw`: uint8 [h, w+1], filter type in column 0. Returns uint8 [h,w] and the first illegal filter type or -1.
    """
    h, w = raw.shape[0], raw.shape[1] - 1
    out = np.empty((h, w), np.uint8)
    zero = np.zeros(w, np.uint8)
    for y in range(h):
        row, line = out[y], raw[y, 1:]
        up = out[y - 1] if y else zero
        kind = raw[y, 0]
        if kind == 0:
            for x in range(w):
                row[x] = line[x]
        elif kind == 1:
            left = np.uint8(0)
            for x in range(w):
                left = np.uint8(left + line[x])
                row[x] = left
        elif kind == 2:
            for x in range(w):
                row[x] = np.uint8(up[x] + line[x])
        elif kind == 3:
            a = np.int32(0)
            for x in range(w):
                a = (np.int32(line[x]) + ((a + np.int32(up[x])) >> 1)) & 255
                row[x] = np.uint8(a)
        elif kind == 4:
            a = np.int32(0)
            c = np.int32(0)
            for x in range(w):
                b = np.int32(up[x])
                if b == c:  # no change from above-left to above: Paeth predicts the left pixel
                    predicted = a
                else:
                    pa, pb, pc = abs(b - c), abs(a - c), abs(a + b - 2 * c)
                    predicted = a if pa <= pb and pa <= pc else b if pb <= pc else c
                a = (np.int32(line[x]) + predicted) & 255
                row[x] = np.uint8(a)
                c = b
        else:
            return out, np.int64(kind)
    return out, np.int64(-1)


@njit(cache=True, nogil=True)
def gather(image, rows, columns):
    """image[rows][:, columns], uint8 [len(rows), len(columns)]."""
    out = np.empty((len(rows), len(columns)), np.uint8)
    for y in range(len(rows)):
        line = image[rows[y]]
        for x in range(len(columns)):
            out[y, x] = line[columns[x]]
    return out


@njit(cache=True, nogil=True)
def area_three_halves(image, x0, y0, width, height):
    """Area resampling by 1.5 of uint8 [h,w,3] from crop offset (x0, y0) to uint8 [height,width,3]; width, height even.

    Two target pixels cover three source pixels with weights (2,1) and (1,2) per axis, so a target value is S / 9 with an
    integer S: never half way between two integers, hence one correct rounding, (S + 4) // 9, in every arithmetic.
    (n * 7282) >> 16 is n // 9 for all n up to 2299, the largest S + 4.
    """
    out = np.empty((height, width, 3), np.uint8)
    n = width // 2 * 9
    flat = image.reshape(image.shape[0], image.shape[1] * 3)
    down = np.empty((2, n), np.uint32)
    for y in range(0, height, 2):
        top = y0 + y // 2 * 3
        r0, r1, r2 = (flat[top, x0 * 3 :], flat[top + 1, x0 * 3 :], flat[top + 2, x0 * 3 :])
        for k in range(n):
            down[0, k] = np.uint32(r0[k]) * np.uint32(2) + np.uint32(r1[k])
            down[1, k] = np.uint32(r1[k]) + np.uint32(2) * np.uint32(r2[k])
        for i in range(2):
            line, to = down[i], out[y + i].reshape(width * 3)
            for p in range(width // 2):
                for c in range(3):
                    left, mid, right = line[9 * p + c], line[9 * p + 3 + c], line[9 * p + 6 + c]
                    to[6 * p + c] = ((left * np.uint32(2) + mid + np.uint32(4)) * np.uint32(7282)) >> np.uint32(16)
                    to[6 * p + 3 + c] = ((mid + np.uint32(2) * right + np.uint32(4)) * np.uint32(7282)) >> np.uint32(16)
    return out


@njit(cache=True, nogil=True)
def histogram(values, bins):
    """Counts of uint8 `values` [n], int64 [256]. `bins` (uint32 [8,256] zeros) spreads runs of one value over 8 counters."""
    n8 = len(values) // 8 * 8
    for k in range(0, n8, 8):
        for i in range(8):
            bins[i, values[k + i]] += np.uint32(1)
    for k in range(n8, len(values)):
        bins[0, values[k]] += np.uint32(1)
    return bins.sum(axis=0)
