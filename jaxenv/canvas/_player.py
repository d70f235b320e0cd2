"""A player of frames as one piece of HTML: a picture, a button and a slider, without anything to load."""

import base64
import struct
import zlib
from collections.abc import Iterator

import numpy as np

MAX_FRAMES = 256

# A page may hold several players, and a notebook may show the same output twice. The script therefore needs no ids: it
# starts every player that was not started yet. It marks them by a property, which is not saved with the page.
_SCRIPT = """
for (const film of document.querySelectorAll(".jaxenv-film")) {
  if (film.jaxenvStarted) continue;
  film.jaxenvStarted = true;
  const image = film.querySelector("img"), bar = film.querySelector(".jaxenv-bar");
  const [button, slider, output] = bar.children;
  const {stride, last, interval} = film.dataset;
  const rest = film.dataset.frames.split(",").map(data => "data:image/png;base64," + data);
  const frames = [image.src, ...rest];
  let timer = null;
  const show = i => {
    image.src = frames[i];
    slider.value = i;
    output.value = `${Math.min(i * stride, last)} / ${last}`;
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
    button.textContent = "\\u25b6";
    button.ariaLabel = "play";
  };
  const next = () => film.isConnected ? show((+slider.value + 1) % frames.length) : stop();
  button.onclick = () => {
    if (timer !== null) return stop();
    timer = setInterval(next, interval);
    button.textContent = "\\u275a\\u275a";
    button.ariaLabel = "pause";
  };
  slider.oninput = () => { stop(); show(+slider.value); };
  stop();
  show(0);
  bar.style.display = "flex";
}
""".strip()


def player(frames: np.ndarray, fps: float, width: int | None = None) -> str:
    """A player of ``frames``, uint8 ``[T, H, W, 3]``; one frame is a picture without controls.

    Args:
        frames: the frames; at most ``MAX_FRAMES`` of them are shown, evenly spaced but for the last one.
        fps: frames per second, counting those that are left out.
        width: the width on the page, to which small frames are enlarged; by default one pixel each.
    """
    count, native = len(frames), frames.shape[2]
    stride = max(-(-(count - 1) // (MAX_FRAMES - 1)), 1)
    chosen = [*range(0, count - 1, stride), count - 1]
    first, *rest = (base64.b64encode(png).decode() for png in pngs(frames[chosen]))
    width = native if width is None else width
    crisp = ";image-rendering:pixelated" if width > native else ""
    picture = f'<img alt="frame 0" width="{width}" style="width:{width}px{crisp}" src="data:image/png;base64,{first}">'
    if not rest:
        return f'<div class="jaxenv-film">{picture}</div>'
    facts = f'data-stride="{stride}" data-last="{count - 1}" data-interval="{1000 * stride / fps:g}"'
    bar = (
        f'<div class="jaxenv-bar" style="display:none;width:{max(width, 160)}px"><button type="button"></button>'
        f'<input type="range" min="0" max="{len(rest)}" value="0" aria-label="frame"><output></output></div>'
    )
    film = f'<div class="jaxenv-film" {facts} data-frames="{",".join(rest)}">{picture}{bar}</div>'
    return f"{film}<script>(() => {{{_SCRIPT}}})()</script>"


def pngs(frames: np.ndarray) -> Iterator[bytes]:
    """PNG files of frames, uint8 ``[T, H, W, 3]``, with one palette of 256 colours for all of them.

    A common palette keeps areas of one colour from flickering, and needs a third of the bytes.
    """
    binned = [_bins(frame) for frame in frames]
    counts = np.sum([np.bincount(bins.reshape(-1), minlength=2**16) for bins in binned], axis=0)
    palette, entries = _palette(frames, counts)
    height, width = frames.shape[1:3]
    header = b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0))
    header += _chunk(b"PLTE", palette.tobytes())
    rows = np.zeros((height, width + 1), np.uint8)  # every row starts with its filter, none
    for bins in binned:
        rows[:, 1:] = entries[bins]
        yield header + _chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)) + _chunk(b"IEND", b"")


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _bins(frame: np.ndarray) -> np.ndarray:
    """The colours of a frame in 16 bits, uint16 ``[H, W]``."""
    red, green, blue = (frame[..., i].astype(np.uint16) for i in range(3))
    return ((red & 0xF8) << 8) | ((green & 0xFC) << 3) | (blue >> 3)


def _palette(frames: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """At most 256 colours, uint8 ``[N, 3]``, and the closest one for every bin that occurs, uint8 ``[2**16]``.

    The colour of a bin is the mean over some of the frames, which is exact for areas of one colour. If there are more
    than 256 bins, 128 colours are the commonest, and the others are means over the cells of a coarse grid.
    """
    occurring = np.flatnonzero(counts)
    sample = frames[:: -(-len(frames) // 16)]
    bins = _bins(sample).reshape(-1)
    seen = np.bincount(bins, minlength=2**16)
    # The middle of each bin, for those that the sample lacks.
    colours = np.stack([occurring >> 11 << 3 | 4, (occurring >> 5 & 63) << 2 | 2, (occurring & 31) << 3 | 4], axis=-1)
    colours = colours.astype(np.float64)
    for i in range(3):
        total = np.bincount(bins, sample[..., i].reshape(-1), minlength=2**16)
        colours[:, i] = np.where(seen[occurring] > 0, total[occurring] / np.maximum(seen[occurring], 1), colours[:, i])
    palette = colours
    if len(occurring) > 256:
        weights = counts[occurring]
        common = np.argsort(-weights, kind="stable")[:128]
        cells = (colours * 5 // 256).astype(int) @ [25, 5, 1]
        total = np.bincount(cells, weights, 125)
        means = np.stack([np.bincount(cells, weights * c, 125) for c in colours.T], axis=-1)[total > 0]
        palette = np.concatenate([colours[common], means / total[total > 0, None]])
    palette = palette.round()
    entries = np.zeros(2**16, np.uint8)
    for some in np.array_split(np.arange(len(occurring)), -(-len(occurring) // 1024)):
        distance = ((colours[some, None] - palette[None]) ** 2).sum(axis=-1)
        entries[occurring[some]] = distance.argmin(axis=1)
    return palette.astype(np.uint8), entries
