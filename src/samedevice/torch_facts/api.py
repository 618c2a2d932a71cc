"""PyTorch's Python API as data, for reading code: what makes, moves, follows and compares tensors.

Ranks: a number of dimensions, -1 for "at least one", None for unknown. Nothing here imports torch.
"""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: make a new tensor on the default device unless `device=` says otherwise; the rank of the result,
#: "shape" when the arguments are the shape, "data" when the argument is the data
FACTORIES: dict[str, int | str | None] = {
    **dict.fromkeys(("zeros", "ones", "empty", "rand", "randn"), "shape"),
    "full": "size0",
    "randint": "size",
    "normal": None,
    "eye": 2,
    "tril_indices": 2,
    "triu_indices": 2,
    "tensor": "data",
    "as_tensor": "data",
    "asarray": "data",
    "scalar_tensor": 0,
    "sparse_coo_tensor": -1,
    "empty_strided": "size0",
    **dict.fromkeys(("arange", "range", "linspace", "logspace", "randperm", "bartlett_window"), 1),
    **dict.fromkeys(("blackman_window", "hamming_window", "hann_window", "kaiser_window"), 1),
    "fft.fftfreq": 1,
    "fft.rfftfreq": 1,
}

#: make a tensor on the CPU whatever the default device is
HOST_FACTORIES: dict[str, int | str | None] = {
    "from_numpy": -1,
    "frombuffer": 1,
    "Tensor": "shape",
    "FloatTensor": "shape",
    "LongTensor": "shape",
    "IntTensor": "shape",
    "BoolTensor": "shape",
    "DoubleTensor": "shape",
    "HalfTensor": "shape",
    "ByteTensor": "shape",
}

#: follow their first tensor argument unless `device=` says otherwise; keep its rank
LIKE_FACTORIES = _names("zeros_like ones_like empty_like full_like rand_like randn_like randint_like")
#: methods that follow their tensor unless `device=` says otherwise
NEW_METHODS = _names("new_zeros new_ones new_empty new_full new_tensor")

#: elementwise on two tensors through TensorIterator: one 0-dim CPU operand may mix
ITERATOR = _names(
    "add sub subtract rsub mul multiply div divide true_divide floor_divide remainder fmod pow float_power eq ne lt le gt ge "
    "greater less greater_equal less_equal not_equal maximum minimum fmax fmin atan2 hypot copysign bitwise_and "
    "bitwise_or bitwise_xor logical_and logical_or logical_xor where isclose xlogy heaviside ldexp lerp addcmul"
)
#: elementwise, no exemption for 0-dim CPU operands
STRICT_ITERATOR = _names(
    "clamp clip clamp_min clamp_max logaddexp logaddexp2 gcd lcm nextafter addcdiv prelu complex polar"
)
#: other operations that refuse mixed devices
STRICT = _names(
    "mm bmm matmul mv dot vdot inner outer addmm addmv addbmm baddbmm addr einsum tensordot kron cross cdist gather scatter "
    "scatter_add scatter_reduce index_select index_add index_copy index_fill take take_along_dim masked_select "
    "masked_scatter masked_fill isin bincount searchsorted bucketize grid_sampler cosine_similarity "
    "linalg.solve linalg.lstsq linalg.multi_dot linalg.cross cholesky_solve triangular_solve "
    "repeat_interleave chain_matmul pairwise_distance dist equal allclose"
)
#: take a list of tensors that must share a device
JOINING = _names(
    "cat concat concatenate stack hstack vstack dstack row_stack column_stack block_diag cartesian_prod meshgrid"
)

#: loss functions of torch.nn.functional: (input, target, weight=…)
LOSSES = _names(
    "cross_entropy nll_loss binary_cross_entropy binary_cross_entropy_with_logits mse_loss l1_loss smooth_l1_loss huber_loss "
    "kl_div poisson_nll_loss gaussian_nll_loss cosine_embedding_loss margin_ranking_loss hinge_embedding_loss "
    "triplet_margin_loss multi_margin_loss multilabel_margin_loss soft_margin_loss multilabel_soft_margin_loss ctc_loss"
)
#: other functions of torch.nn.functional whose tensor arguments must share a device
FUNCTIONAL_STRICT = _names(
    "linear bilinear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d embedding embedding_bag batch_norm "
    "layer_norm group_norm instance_norm rms_norm scaled_dot_product_attention grid_sample cosine_similarity pairwise_distance "
    "prelu"
)
#: arguments of those that are no operands of the device check
NO_OPERANDS = {
    "ctc_loss": _names("input_lengths target_lengths 2 3"),
    "index_fill": _names("value 2"),
    "masked_fill": _names("value 2"),
}

#: follow their first tensor argument; rank kept
SAME_RANK = _names(
    "abs absolute acos acosh angle asin asinh atan atanh ceil clamp clip clone contiguous conj cos cosh cumsum cumprod cummax "
    "cummin logcumsumexp deg2rad detach digamma erf erfc erfinv exp exp2 expm1 flip fliplr flipud floor frac isfinite isinf "
    "isnan lgamma log log10 log1p log2 logical_not logit neg negative nan_to_num positive rad2deg reciprocal relu relu_ round "
    "rsqrt rot90 roll selu sigmoid sign sgn silu sin sinc sinh softmax log_softmax sort argsort sqrt square tan tanh tril triu "
    "trunc bernoulli dropout gelu elu celu leaky_relu hardtanh relu6 softplus softsign mish hardswish hardsigmoid normalize "
    "renorm bitwise_not float double half bfloat16 int long short bool byte char to_dense requires_grad_ zero_ fill_ "
    "normal_ uniform_ random_ exponential_ clamp_ abs_ neg_ exp_ sqrt_ sigmoid_ tanh_ detach_ copy_ permute movedim moveaxis "
    "transpose swapaxes swapdims softmin tanhshrink threshold logsigmoid feature_alpha_dropout alpha_dropout dropout1d "
    "dropout2d dropout3d gumbel_softmax index_put masked_fill_ index_add_ scatter_ scatter_add_ index_copy_ index_fill_ "
    "pad type cpu_ view_as_real_ t T expand_dims_ retain_grad_ share_memory_ contiguous_ bernoulli_ t_ square_ log_ "
    "round_ ceil_ floor_ reciprocal_ rsqrt_ erfinv_ cos_ sin_ trunc_ tril_ triu_ fill_diagonal_ unfold_ sigmoid_ log1p_ "
    "requires_grad data real imag mT H mH grad"
)
#: follow, the result has at least one dimension
AT_LEAST_ONE = _names(
    "view reshape unsqueeze expand expand_as view_as reshape_as repeat tile flatten ravel unflatten nonzero unfold "
    "diag diag_embed diagflat broadcast_to one_hot bincount unique unique_consecutive stack hstack vstack topk "
    "combinations atleast_1d atleast_2d atleast_3d view_as_real repeat_interleave interpolate upsample fold vander "
    "max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
    "adaptive_max_pool1d adaptive_max_pool2d pixel_shuffle pixel_unshuffle chunk split tensor_split unbind hsplit vsplit dsplit "
    "unsqueeze_ resize_ linalg.eigh linalg.svd linalg.qr linalg.inv inverse linalg.cholesky cholesky pinverse linalg.pinv svd qr "
    "matrix_exp matrix_power fft.fft fft.ifft fft.rfft fft.irfft fft.fft2 fft.ifft2 fft.fftn fft.ifftn fft.rfft2 fft.irfft2 "
    "fft.fftshift fft.ifftshift stft istft linalg.eig linalg.eigvals linalg.eigvalsh cov corrcoef histc where_ "
)
#: follow; without a dimension argument the result has none
REDUCTIONS = _names(
    "sum mean prod std var median mode max min amax amin argmax argmin all any logsumexp norm nansum nanmean nanmedian "
    "count_nonzero quantile nanquantile linalg.norm linalg.vector_norm linalg.matrix_norm linalg.det det logdet slogdet trace "
    "aminmax std_mean var_mean diff"
)
#: follow, rank unknown
FOLLOWING = _names(
    "squeeze squeeze_ select narrow diagonal index_put_ index_put as_strided values indices logits view_as_complex take_ "
    "linalg.matrix_rank cumulative_trapezoid trapezoid multinomial lu_solve linalg.slogdet crow_indices col_indices coalesce "
    "to_sparse movedim_ swapaxes_ get item_ select_scatter slice_scatter apply_ map_ corr sum_to_size "
)
#: give Python values
TO_HOST = _names(
    "item tolist size dim numel nelement ndimension element_size storage_offset stride is_contiguous data_ptr is_floating_point "
    "is_complex is_pinned is_shared get_device shape ndim dtype layout requires_grad is_leaf names is_sparse itemsize nbytes "
    "allclose equal is_tensor is_cuda is_meta __len__ type_ hash"
)

#: builtin modules with parameters: attribute names and ranks
PARAMETERS: dict[str, dict[str, int]] = {
    "Linear": {"weight": 2, "bias": 1},
    "LazyLinear": {"weight": 2, "bias": 1},
    "Bilinear": {"weight": 3, "bias": 1},
    "Embedding": {"weight": 2},
    "EmbeddingBag": {"weight": 2},
    "PReLU": {"weight": 1},
    "LayerNorm": {"weight": 1, "bias": 1},
    "RMSNorm": {"weight": 1},
    "GroupNorm": {"weight": 1, "bias": 1},
    **{f"Conv{n}d": {"weight": n + 2, "bias": 1} for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": {"weight": n + 2, "bias": 1} for n in (1, 2, 3)},
    **{f"BatchNorm{n}d": {"weight": 1, "bias": 1} for n in (1, 2, 3)},
    "SyncBatchNorm": {"weight": 1, "bias": 1},
    **{name: {"weight_ih_l0": 2, "weight_hh_l0": 2} for name in ("RNN", "LSTM", "GRU")},
    **{name: {"weight_ih": 2, "weight_hh": 2} for name in ("RNNCell", "LSTMCell", "GRUCell")},
    "MultiheadAttention": {"in_proj_weight": 2},
    **{
        name: {"weight": 2}
        for name in (
            "Transformer",
            "TransformerEncoder",
            "TransformerDecoder",
            "TransformerEncoderLayer",
            "TransformerDecoderLayer",
        )
    },
}
#: builtin modules with buffers that meet the input
BUFFERS: dict[str, dict[str, int]] = {
    f"BatchNorm{n}d": {"running_mean": 1, "running_var": 1} for n in (1, 2, 3)
}

#: losses as modules: which keyword or position holds a tensor that is kept as a buffer
LOSS_MODULES: dict[str, dict[str, int | None]] = {
    "CrossEntropyLoss": {"weight": 0},
    "NLLLoss": {"weight": 0},
    "BCELoss": {"weight": 0},
    "BCEWithLogitsLoss": {"weight": 0, "pos_weight": 4},
    "MultiMarginLoss": {"weight": 2},
    "MultiLabelSoftMarginLoss": {"weight": 0},
    **{
        name: {}
        for name in (
            "MSELoss L1Loss SmoothL1Loss HuberLoss KLDivLoss PoissonNLLLoss GaussianNLLLoss CosineEmbeddingLoss MarginRankingLoss "
            "HingeEmbeddingLoss TripletMarginLoss MultiLabelMarginLoss SoftMarginLoss TripletMarginWithDistanceLoss"
        ).split()
    },
}
#: builtin modules that only follow their input; rank kept unless named in RESHAPING
STATELESS = _names(
    "Identity ReLU ReLU6 LeakyReLU ELU CELU SELU GELU SiLU Mish Tanh Sigmoid Softmax LogSoftmax Softmin Softplus Softsign "
    "Hardswish Hardsigmoid Hardtanh LogSigmoid Tanhshrink Threshold GLU Dropout Dropout1d Dropout2d Dropout3d AlphaDropout "
    "MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d AvgPool3d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d "
    "AdaptiveMaxPool1d AdaptiveMaxPool2d Flatten Unflatten Upsample UpsamplingNearest2d UpsamplingBilinear2d ZeroPad2d "
    "ReflectionPad1d ReflectionPad2d ReplicationPad2d ConstantPad2d PixelShuffle PixelUnshuffle Softmax2d Fold Unfold "
    "InstanceNorm1d InstanceNorm2d InstanceNorm3d LocalResponseNorm ChannelShuffle CosineSimilarity PairwiseDistance"
)
CONTAINERS = _names("Sequential ModuleList ModuleDict ParameterList ParameterDict")

#: optimizers that allocate per-parameter state when they are constructed
EAGER_STATE = _names("Adagrad")
OPTIMIZERS = _names(
    "Adadelta Adagrad Adam AdamW Adamax ASGD NAdam RAdam RMSprop Rprop SGD SparseAdam LBFGS Adafactor Muon"
)

#: classes whose users do not move things themselves: a framework places module and batch
PLACED_BY_FRAMEWORK = frozenset(
    {
        "lightning.LightningModule", "lightning.pytorch.LightningModule", "pytorch_lightning.LightningModule",
        "lightning.pytorch.core.LightningModule", "pytorch_lightning.core.LightningModule",
        "lightning.pytorch.core.module.LightningModule", "lightning.LightningDataModule", "pytorch_lightning.LightningDataModule",
    }
)  # fmt: skip
#: classes of other packages that are `nn.Module`s
MODULE_BASES = frozenset(
    {
        "torch.nn.Module", "torch.jit.ScriptModule", "torchmetrics.Metric", "torch.nn.modules.loss._Loss", "torch.nn._Loss",
        "transformers.PreTrainedModel", "transformers.modeling_utils.PreTrainedModel", "torch_geometric.nn.MessagePassing",
        "torch_geometric.nn.conv.MessagePassing", "torch.nn._WeightedLoss", "torch.nn._ConvNd", "torch.nn._BatchNorm",
        "gpytorch.models.ExactGP", "ignite.metrics.Metric_", "timm.models.layers.Module",
    }
) | PLACED_BY_FRAMEWORK  # fmt: skip

#: torchvision datasets whose samples are (image, label)
IMAGE_DATASETS = _names(
    "MNIST FashionMNIST KMNIST EMNIST QMNIST USPS CIFAR10 CIFAR100 SVHN STL10 ImageFolder ImageNet FakeData Food101 "
    "OxfordIIITPet Flowers102 GTSRB PCAM DTD EuroSAT Caltech101 Caltech256 StanfordCars FGVCAircraft"
)

#: calls that keep nothing of their arguments and move nothing
HARMLESS_METHODS = _names(
    "info debug warning error exception log print write append add add_scalar add_graph add_image add_histogram watch save dump "
    "dumps update set_description set_postfix format join warn critical put send log_metrics log_dict push record report"
)
