# SPDX-License-Identifier: Apache-2.0
"""All pages have one style sheet, with Material's rules first and then ours, in the order of the settings."""

from types import SimpleNamespace

from render.mkdocs import styles


def test_one_sheet_takes_the_place_of_all(tmp_path):
    texts = {
        "assets/stylesheets/palette.0.min.css": "b{}",
        "assets/stylesheets/main.1.min.css": "a{}",
        "assets/two.css": "d{}",
        "assets/one.css": "c{}",
        "assets/home.css": "of one page{}",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    config = SimpleNamespace(site_dir=str(tmp_path), extra_css=["assets/one.css", "assets/two.css"])
    assert styles.on_config(config).extra_css == []
    styles.on_post_build(config)
    assert (tmp_path / styles.JOINED).read_text("utf-8").split() == ["a{}", "b{}", "c{}", "d{}"]
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.css")}
    assert left == {styles.JOINED, "assets/home.css"}
