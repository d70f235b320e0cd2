"""Data transformers, which change what policies and learners see; the stored rows stay raw."""

from jaxenv.data.transformers.frame_stacker import FrameStacker as FrameStacker
from jaxenv.data.transformers.hindsight import Hindsight as Hindsight
from jaxenv.data.transformers.hindsight import within_reach as within_reach
from jaxenv.data.transformers.identity import Identity as Identity
from jaxenv.data.transformers.image_scale import ImageScale as ImageScale
from jaxenv.data.transformers.normalizer import Normalizer as Normalizer
from jaxenv.data.transformers.observation_normalizer import ObservationNormalizer as ObservationNormalizer
from jaxenv.data.transformers.reward_clipping import RewardClipping as RewardClipping
from jaxenv.data.transformers.reward_function import RewardFunction as RewardFunction
from jaxenv.data.transformers.reward_normalizer import RewardNormalizer as RewardNormalizer
from jaxenv.data.transformers.reward_scaling import RewardScaling as RewardScaling
from jaxenv.data.transformers.reward_shifting import RewardShifting as RewardShifting
from jaxenv.data.transformers.reward_transformer import RewardTransformer as RewardTransformer
from jaxenv.data.transformers.row_transformer import RowTransformer as RowTransformer
from jaxenv.data.transformers.sequential import Sequential as Sequential
from jaxenv.data.transformers.sequential import create as create
from jaxenv.data.transformers.transformer import Transformer as Transformer
from jaxenv.data.transformers.untransformed import Untransformed as Untransformed
