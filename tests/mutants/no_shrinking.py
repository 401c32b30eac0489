"""A pytest plugin: Hypothesis reports the first example that fails, without a search for a smaller one."""

from hypothesis import Phase, settings

settings.register_profile("no shrinking", phases=(Phase.explicit, Phase.generate), database=None)
settings.load_profile("no shrinking")
