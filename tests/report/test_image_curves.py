"""The curves of a run on images: a panel of quality with its floor, and no words about rules."""

from __future__ import annotations

from twoclocks.report.curves import curves_data, draw_curves
from twoclocks.runs import Run


def test_runs_on_images_have_a_panel_of_quality_and_others_do_not(twin_digits: tuple[Run, Run], tiny_dit: Run) -> None:
    images, bits = curves_data(twin_digits[0]), curves_data(tiny_dit)
    assert images.quality is not None and bits.quality is None
    columns = twin_digits[0].metrics()
    assert images.quality.values.tolist() == columns["frechet"][columns["step"] > 0].tolist()
    assert images.quality.floor == twin_digits[0].metric("frechet").chance_rule
    panels = draw_curves([images]).axes
    assert [axis.get_ylabel() for axis in panels] == ["proportion of samples", "loss on", "Fréchet distance"]
    assert panels[-1].get_xlabel() == "training step" and not panels[1].get_xlabel()
    assert len(draw_curves([bits]).axes) == 2
    assert "no rule" in images.last_sentence
