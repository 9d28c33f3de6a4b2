"""The switch that writes the expected texts anew."""


def pytest_addoption(parser):
    parser.addoption("--update", action="store_true", help="tests/ir: write what the passes give")
