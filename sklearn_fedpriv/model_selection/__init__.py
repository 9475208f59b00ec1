"""Third floor: choosing hyper-parameters by a private vote of the parties."""

from sklearn_fedpriv.model_selection._search import DPHypeRandomizedSearchCV, DPHypeSearchCV
from sklearn_fedpriv.model_selection._twin import local_twin

__all__ = ["DPHypeRandomizedSearchCV", "DPHypeSearchCV", "local_twin"]
