# SPDX-License-Identifier: Apache-2.0
"""Squares and words of a picture of accesses, collected until it is drawn."""

from markupsafe import Markup

from figures import svg

PITCH = 28  # from one square to the next, in the SVG's own units, which are CSS pixels at its natural size
SIDE = 25
GAP = 14  # between programs, and between strips


class Canvas:
    """Collects the elements of one picture; ``width`` is what its squares take."""

    def __init__(self):
        self.id = svg.unique("launch-picture")
        self.parts: list[Markup] = []
        self.hatches: set[str] = set()  # colors
        self.width = 0

    def _text(self, x, y, text, *, size=12, ink="ink", font="sans", anchor="start", weight=400, halo=0):
        face = {"font_size": size, "font_weight": weight, "text_anchor": anchor}
        self.parts.append(svg.text(x, y, text, ink=ink, font=font, halo=halo, **face))

    def _square(self, x, y, offset, color, *, fill="none", opacity=1.0, stroke=1.5, radius=3, dashed=False):
        self.width = max(self.width, x + PITCH)
        line = {"stroke": "currentColor" if stroke else "none", "stroke_width": stroke}
        dash = {"stroke_dasharray": "3 2.5"} if dashed else {}
        box = {"x": x + 1, "y": y + 1, "width": SIDE, "height": SIDE, "rx": radius}
        inside = {"color": f"var(--{color})", "fill": fill, "fill_opacity": opacity}
        self.parts.append(svg.element("rect", **box, **inside, **line, **dash))
        size, font = (12.5, "mono") if len(str(offset)) < 4 else (11, "sans")  # four digits are as wide as a square
        self._text(x + 1 + SIDE / 2, y + 18, offset, size=size, font=font, anchor="middle", halo=4 * dashed)

    def _hatched(self, x, y, offset, color, *, radius=3):
        """Draw what is masked off."""
        self.hatches.add(color)
        self._square(x, y, offset, color, fill=f"url(#{self.id}-{color})", radius=radius, dashed=True)

    def _patterns(self) -> Markup:
        """Return the hatchings that were used."""
        hatches = [
            svg.hatch(f"{self.id}-{color}", every=6, color=f"var(--{color})", stroke_width=1.5, stroke_opacity=0.6)
            for color in sorted(self.hatches)
        ]
        return svg.element("defs", *hatches)
