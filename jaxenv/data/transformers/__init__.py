"""Data transformers change the rows that policies and learners see; the stored rows stay raw.

Constructors raise a ``ValueError`` that names transformer, argument, rule and value.
"""

from jaxenv.data.transformers.frame_stacker import FrameStacker as FrameStacker
from jaxenv.data.transformers.hindsight import Hindsight as Hindsight
from jaxenv.data.transformers.hindsight import within_reach as within_reach
from jaxenv.data.transformers.normalizer import Normalizer as Normalizer
from jaxenv.data.transformers.normalizer import ObservationNormalizer as ObservationNormalizer
from jaxenv.data.transformers.normalizer import RewardNormalizer as RewardNormalizer
from jaxenv.data.transformers.sequential import Sequential as Sequential
from jaxenv.data.transformers.sequential import create as create
from jaxenv.data.transformers.transformer import Identity as Identity
from jaxenv.data.transformers.transformer import RowTransformer as RowTransformer
from jaxenv.data.transformers.transformer import Transformer as Transformer
from jaxenv.data.transformers.transformer import Untransformed as Untransformed
from jaxenv.data.transformers.values import ImageScale as ImageScale
from jaxenv.data.transformers.values import RewardClipping as RewardClipping
from jaxenv.data.transformers.values import RewardFunction as RewardFunction
from jaxenv.data.transformers.values import RewardScaling as RewardScaling
from jaxenv.data.transformers.values import RewardShifting as RewardShifting
from jaxenv.data.transformers.values import RewardTransformer as RewardTransformer
