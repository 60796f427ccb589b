"""The statistics of the boards: a pure core of NumPy and SciPy that knows nothing of Django.

Names are loaded when they are first used, so that importing the package costs no SciPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ranking.stats.agreement import (
        NominalAgreement,
        cohen_kappa,
        krippendorff_alpha,
        nominal_agreement,
    )
    from ranking.stats.always_valid import ShutOut, Watched
    from ranking.stats.battles import Battles
    from ranking.stats.bootstrap import Bootstrap
    from ranking.stats.bradley_terry import BradleyTerry
    from ranking.stats.clusters import ENOUGH, Clusters, choose_clusters
    from ranking.stats.connectivity import Status
    from ranking.stats.correlations import correlation_lift, score_correlations
    from ranking.stats.crosscheck import largest_difference
    from ranking.stats.differences import Difference, Lead, Neighbours, compare, neighbours
    from ranking.stats.elo import Elo, EloInterval
    from ranking.stats.fragility import Fragility, Stability, measure_fragility
    from ranking.stats.identified import NoStyle
    from ranking.stats.intervals import NoInterval
    from ranking.stats.judged import Labelled, Unlabelled, draw_weights
    from ranking.stats.kappas import clustered_kappa, fleiss_kappa
    from ranking.stats.newton import NotConverged
    from ranking.stats.paired import binomial_excess, mcnemar
    from ranking.stats.pairing import pair_weights
    from ranking.stats.prediction_powered import NoGain, PredictionPowered
    from ranking.stats.ranks import clear_leader, rank_intervals
    from ranking.stats.resampling import Correlations, Estimate
    from ranking.stats.sandwich import Sandwich, TwoWaySandwich
    from ranking.stats.shares import clustered_share, share_difference
    from ranking.stats.style import StyledBradleyTerry, style_differences
    from ranking.stats.ties import NoTieModel, RaoKupper
    from ranking.stats.triads import Transitivity, transitivity
    from ranking.stats.win_matrix import WinMatrix, observed_shares, predicted_shares

__all__ = [
    "ENOUGH",
    "Battles",
    "Bootstrap",
    "BradleyTerry",
    "Clusters",
    "Correlations",
    "Difference",
    "Elo",
    "EloInterval",
    "Estimate",
    "Fragility",
    "Labelled",
    "Lead",
    "Neighbours",
    "NoGain",
    "NoInterval",
    "NoStyle",
    "NoTieModel",
    "NominalAgreement",
    "NotConverged",
    "PredictionPowered",
    "RaoKupper",
    "Sandwich",
    "ShutOut",
    "Stability",
    "Status",
    "StyledBradleyTerry",
    "Transitivity",
    "TwoWaySandwich",
    "Unlabelled",
    "Watched",
    "WinMatrix",
    "binomial_excess",
    "choose_clusters",
    "clear_leader",
    "clustered_kappa",
    "clustered_share",
    "cohen_kappa",
    "compare",
    "correlation_lift",
    "draw_weights",
    "fleiss_kappa",
    "krippendorff_alpha",
    "largest_difference",
    "mcnemar",
    "measure_fragility",
    "neighbours",
    "nominal_agreement",
    "observed_shares",
    "pair_weights",
    "predicted_shares",
    "rank_intervals",
    "score_correlations",
    "share_difference",
    "style_differences",
    "transitivity",
]

_HOMES = {
    "ENOUGH": "clusters",
    "Battles": "battles",
    "Bootstrap": "bootstrap",
    "BradleyTerry": "bradley_terry",
    "Clusters": "clusters",
    "Correlations": "resampling",
    "Difference": "differences",
    "Elo": "elo",
    "EloInterval": "elo",
    "Estimate": "resampling",
    "Fragility": "fragility",
    "Labelled": "judged",
    "Lead": "differences",
    "Neighbours": "differences",
    "NoGain": "prediction_powered",
    "NoInterval": "intervals",
    "NoStyle": "identified",
    "NoTieModel": "ties",
    "NominalAgreement": "agreement",
    "NotConverged": "newton",
    "PredictionPowered": "prediction_powered",
    "RaoKupper": "ties",
    "Sandwich": "sandwich",
    "ShutOut": "always_valid",
    "Stability": "fragility",
    "Status": "connectivity",
    "StyledBradleyTerry": "style",
    "Transitivity": "triads",
    "TwoWaySandwich": "sandwich",
    "Unlabelled": "judged",
    "Watched": "always_valid",
    "WinMatrix": "win_matrix",
    "binomial_excess": "paired",
    "choose_clusters": "clusters",
    "clear_leader": "ranks",
    "clustered_kappa": "kappas",
    "clustered_share": "shares",
    "cohen_kappa": "agreement",
    "compare": "differences",
    "correlation_lift": "correlations",
    "draw_weights": "judged",
    "fleiss_kappa": "kappas",
    "krippendorff_alpha": "agreement",
    "largest_difference": "crosscheck",
    "mcnemar": "paired",
    "measure_fragility": "fragility",
    "neighbours": "differences",
    "nominal_agreement": "agreement",
    "observed_shares": "win_matrix",
    "pair_weights": "pairing",
    "predicted_shares": "win_matrix",
    "rank_intervals": "ranks",
    "score_correlations": "correlations",
    "share_difference": "shares",
    "style_differences": "style",
    "transitivity": "triads",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
