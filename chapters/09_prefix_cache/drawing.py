"""The drawing of chapter 9: two prompts with the same beginning, the tree of their blocks, and the pages that hold them."""

from __future__ import annotations

from minfer.blocks.prefix import PrefixBlocks
from minfer.course.drawing import BLUE, GREEN, ORANGE, Drawing
from minfer.course.toy_run import sequence

SYSTEM = list("You␣are␣")
PROMPTS = {"A": [*SYSTEM, *"Hi,␣Bo."], "B": [*SYSTEM, *"Why?"]}
PAGE = 4


def tables() -> dict[str, list[int]]:
    """The block tables that minfer's prefix cache gives the two, one after the other."""
    blocks = PrefixBlocks(9, PAGE)
    found = {}
    for number, (name, text) in enumerate(PROMPTS.items()):
        seq = sequence(number, [ord(letter) for letter in text], 4)
        seq.num_computed = blocks.match(seq)
        blocks.allocate(seq, seq.num_tokens)
        seq.num_computed = seq.num_tokens
        blocks.commit(seq)
        found[name] = seq.block_table
    return found


def draw() -> Drawing:
    title = "Prompts A and B begin with the same eight tokens: both block tables point to the same two pages, and B computes the rest"
    drawing = Drawing(31, 15.5, title)
    found = tables()
    shared = [block for block in found["A"] if block in found["B"]]
    colours = {block: BLUE for block in shared}
    colours |= {block: ORANGE for block in found["A"] if block not in shared}
    colours |= {block: GREEN for block in found["B"] if block not in shared}
    for y, (name, text) in zip((0.6, 3.2), PROMPTS.items(), strict=True):
        drawing.text(0.3, y + 0.5, name, bold=True)
        fills = [colours[found[name][at // PAGE]] for at in range(len(text))]
        drawing.cells(1.4, y, text, fills)
        drawing.text(17.6, y + 0.5, f"block table {found[name]}", size=8)
    drawing.text(1.4, 5.0, "the same eight tokens: found for B", size=8)
    drawing.text(0.3, 6.6, "the tree", bold=True)
    drawing.box(1.4, 7.4, 2.2, 1.1, "salt", dashed=True)
    places = {}
    for i, block in enumerate(shared):
        places[block] = (5.4 + 6.2 * i, 7.4)
    places[found["A"][2]] = (17.8, 6.6)
    places[found["B"][2]] = (17.8, 8.3)
    texts = {block: "".join(PROMPTS[name][i * PAGE : (i + 1) * PAGE]) for name in PROMPTS for i, block in enumerate(found[name])}
    before = (3.6, 7.95)
    for block, (x, y) in places.items():
        drawing.box(x, y, 4.2, 1.1, f"“{texts[block]}”, page {block}", colours[block], size=7)
        drawing.arrow(before, (x, y + 0.55))
        if block in shared:
            before = (x + 4.2, 7.95)
    drawing.text(23, 7.2, "full: can be found", size=8)
    drawing.text(23, 8.9, "full as well", size=8)
    drawing.text(0.3, 10.9, "the pool", bold=True)
    holders = {block: sum(block in table for table in found.values()) for block in range(9)}
    pages = [("pad", None)] + [(f"{texts[b]} ×{holders[b]}" if holders[b] else "", colours.get(b)) for b in range(1, 9)]
    drawing.pages(1.4, 11.6, pages, columns=9, width=3)
    drawing.text(1.4, 14.8, "×2: two block tables hold the page. The last tokens of A fill no page, so nobody can find them.", size=8)
    return drawing


if __name__ == "__main__":
    draw().save(__file__)
