"""Colours stay apart, also for eyes that lack one kind of cone, on light pages and on dark ones."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pipelines.taxonomy import COMPONENTS, Stage

# Machado, Oliveira and Fernandes 2009, full deficiency, for linear RGB.
EYES = {
    "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deuteranopia": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritanopia": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE, DARK = "#ffffff", "#171d26"


def linear(colour):
    channels = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def lab(colour, eye):
    seen = np.clip(np.array(EYES[eye]) @ linear(colour), 0, 1)
    x, y, z = np.cbrt(TO_XYZ @ seen / np.array([0.9505, 1, 1.0888]))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def contrast(one, other):
    low, high = sorted(float(TO_XYZ[1] @ linear(colour)) + 0.05 for colour in (one, other))
    return high / low


def nearest(colours, eye):
    seen = {name: lab(colour, eye) for name, colour in colours.items()}
    pairs = itertools.combinations(seen, 2)
    return min((float(np.linalg.norm(seen[a] - seen[b])), a, b) for a, b in pairs)


@pytest.mark.parametrize("eye", EYES)
def test_no_two_components_and_no_two_stages_look_alike(eye):
    apart, *names = nearest({c.key: c.colour for c in COMPONENTS}, eye)
    assert apart > 10, names
    apart, *names = nearest({s.value: s.colour for s in Stage}, eye)
    assert apart > 15, names


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda c: c.key)
def test_every_colour_is_seen_on_light_and_on_dark(component):
    assert contrast(component.colour, WHITE) > 1.4
    assert contrast(component.colour, DARK) > 1.9
