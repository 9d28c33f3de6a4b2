"""Settings: where values come from, what is refused, and how scopes nest."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from rushlight.base.config import (
    SETTINGS,
    Config,
    SettingError,
    available_cores,
    child_environment,
    config,
    format_table,
)


def test_defaults_hold_in_an_empty_environment():
    settings = Config({})
    assert settings.debug == 0
    assert settings.backend == "llvm"
    assert settings.cache is True
    assert settings.cache_limit_mb == 2048
    assert settings.max_pending == 20000
    assert settings.spin_us == 100
    assert settings.source("debug") == "default"


def test_every_setting_has_an_annotation_and_a_valid_default():
    assert list(Config.__annotations__) == [setting.field for setting in SETTINGS]
    for setting in SETTINGS:
        assert setting.kind.type is Config.__annotations__[setting.field]
        setting.check(setting.default_value({}), "the default")
        assert setting.doc.endswith(".")


def test_variables_are_unique():
    assert len({setting.variable for setting in SETTINGS}) == len(SETTINGS)


def test_environment_beats_default_and_override_beats_environment():
    settings = Config({"DEBUG": "2"})
    assert (settings.debug, settings.source("debug")) == (2, "environment")
    with settings.override(debug=3):
        assert (settings.debug, settings.source("debug")) == (3, "override")
    assert settings.debug == 2


def test_override_nests_and_is_undone_by_an_exception():
    settings = Config({})
    with pytest.raises(KeyError), settings.override(debug=1, only="k1"):
        with settings.override(debug=4):
            assert (settings.debug, settings.only) == (4, "k1")
        assert settings.debug == 1
        raise KeyError
    assert (settings.debug, settings.only) == (0, "")


def test_override_is_of_one_thread():
    settings, seen = Config({}), []
    with settings.override(debug=5):
        thread = threading.Thread(target=lambda: seen.append(settings.debug))
        thread.start()
        thread.join()
    assert seen == [0]


@pytest.mark.parametrize("text", ["1", "true", "ON", " yes "])
def test_switch_reads_words_for_on(text):
    assert Config({"RUSHLIGHT_CACHE": text}).cache is True


@pytest.mark.parametrize("text", ["0", "false", "Off", "no"])
def test_switch_reads_words_for_off(text):
    assert Config({"RUSHLIGHT_CACHE": text}).cache is False


@pytest.mark.parametrize(
    ("variable", "field", "text"),
    [
        ("DEBUG", "debug", "7"),
        ("DEBUG", "debug", "loud"),
        ("CHECK", "check", "-1"),
        ("DEBUG_FORMAT", "debug_format", "xml"),
        ("RUSHLIGHT_CACHE", "cache", "maybe"),
        ("RUSHLIGHT_CACHE_LIMIT_MB", "cache_limit_mb", "0"),
        ("RUSHLIGHT_NUM_THREADS", "num_threads", "1.5"),
        ("RUSHLIGHT_CPU_FEATURES", "cpu_features", "generic"),
        ("RUSHLIGHT_CPU_FEATURES", "cpu_features", "-avx2,fma"),
    ],
)
def test_bad_text_is_refused_by_name(variable, field, text):
    with pytest.raises(SettingError) as caught:
        getattr(Config({variable: text}), field)
    message = str(caught.value)
    assert variable in message
    assert text in message
    assert "is not" in message


@pytest.mark.parametrize("values", [{"debug": 9}, {"debug": True}, {"backend": ""}, {"cache": 1}])
def test_bad_override_is_refused_and_changes_nothing(values):
    settings = Config({})
    with pytest.raises(SettingError), settings.override(**values):
        pass
    assert format_table(settings) == format_table(Config({}))


def test_unknown_setting_is_refused_with_the_known_names():
    with pytest.raises(SettingError, match="no setting 'debgu'.*debug"), config.override(debgu=1):
        pass
    with pytest.raises(AttributeError, match="no setting 'debgu'"):
        _ = config.debgu


def test_assignment_is_refused():
    with pytest.raises(AttributeError, match="override"):
        config.debug = 1


def test_empty_variable_means_default():
    assert Config({"DEBUG": ""}).source("debug") == "default"


def test_cache_dir_honors_xdg_and_the_home_sign():
    assert Config({"XDG_CACHE_HOME": "/x"}).cache_dir == str(Path("/x/rushlight"))
    assert Config({"RUSHLIGHT_CACHE_DIR": "~/c"}).cache_dir == os.path.expanduser("~/c")


def test_table_names_every_variable_and_its_source():
    table = format_table(Config({"CHECK": "2"}))
    for setting in SETTINGS:
        assert setting.variable in table
    row = next(line for line in table.splitlines() if line.startswith("CHECK"))
    assert row.split()[1:3] == ["2", "environment"]


def test_command_prints_the_table():
    run = [sys.executable, "-m", "rushlight.cli", "settings"]
    done = subprocess.run(run, capture_output=True, text=True, env=child_environment(DEBUG="3"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "environment" in done.stdout
    done = subprocess.run(run, capture_output=True, text=True, env=child_environment(DEBUG="x"))
    assert done.returncode == 1
    assert "DEBUG" in done.stderr


def test_available_cores_is_positive():
    assert available_cores() >= 1
