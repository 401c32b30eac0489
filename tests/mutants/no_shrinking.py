"""A pytest plugin: Hypothesis reports the first example that fails, however loaded the machine is."""

from hypothesis import HealthCheck, Phase, settings

settings.register_profile(
    "no shrinking",
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=(HealthCheck.too_slow,),
    deadline=None,
    database=None,
)
settings.load_profile("no shrinking")
