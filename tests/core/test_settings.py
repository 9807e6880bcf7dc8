"""Settings: every mistake at once, and no data set that mixes two of them."""

import pytest

from gc25d_core.errors import DamagedFile, SettingsError
from gc25d_core.outputs.publish import read_json, read_jsonl
from gc25d_core.settings import Settings
from gc25d_core.vae.identity import VaeFileError


def test_every_mistake_comes_in_one_message(tmp_path):
    with pytest.raises(SettingsError) as e:
        Settings.resolve(src=tmp_path / "no", out=None, device="tpu", precision="rough", size="800x481", seats=0)
    assert len(e.value.mistakes) == 6


def test_other_shaping_settings_are_refused_with_the_differences_and_reconfigure_goes_on(settings_for):
    settings_for().check_prep_args()
    settings_for(workers=2).check_prep_args()
    other = settings_for(size="96x48", buried_player_frac=0.25)
    with pytest.raises(SettingsError) as e:
        other.check_prep_args()
    text = str(e.value)
    assert "size: [64, 32] there, [96, 48] now" in text and "buried_player_frac: 0.5 there, 0.25 now" in text
    assert "vae" not in text.replace("--reconfigure", "")
    other.check_prep_args(reconfigure=True)
    other.check_prep_args()


def test_a_file_that_is_no_checkpoint_never_becomes_part_of_a_data_set(settings_for, tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("export X=1\n")
    with pytest.raises(VaeFileError, match="is no checkpoint"):
        settings_for(vae=str(text)).check_prep_args()
    assert not settings_for().paths.prep_args.exists()


def test_an_output_folder_that_cannot_be_one_is_a_mistake_not_a_traceback(settings_for, tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    for out in (tmp_path / "file", tmp_path / "file" / "sub", tmp_path / "loop" / "x", tmp_path / ("n" * 300)):
        with pytest.raises(SettingsError, match="output"):
            settings_for(out=out)


def test_a_damaged_small_file_is_named(tmp_path):
    path = tmp_path / "a.json"
    path.write_text('{"x": ')
    for read in (read_json, read_jsonl):
        with pytest.raises(DamagedFile, match=r"a\.json is damaged .* delete it and build again"):
            read(path)
