"""Modules of PyTorch whose contents live elsewhere here.

A module of PyTorch that has a counterpart of the same name below `rushlight` needs no line. A line
names the modules in which the alias looks for a name, in that order; an alias holds nothing itself.
"""

from __future__ import annotations

# The layers of torch.nn.modules.X that programs import by module; all are found in rushlight.nn.
_NN = """activation adaptive batchnorm channelshuffle container conv distance dropout flatten fold
instancenorm lazy linear loss module normalization padding pixelshuffle pooling rnn sparse
transformer upsampling utils""".split()
_OPTIM = """adadelta adagrad adam adamax adamw asgd lbfgs nadam radam rmsprop rprop sgd sparse_adam
_functional""".split()
_DISTRIBUTIONS = """bernoulli beta binomial categorical cauchy chi2 continuous_bernoulli dirichlet
exp_family exponential fishersnedecor gamma generalized_pareto geometric gumbel half_cauchy
half_normal independent inverse_gamma kumaraswamy laplace lkj_cholesky log_normal logistic_normal
lowrank_multivariate_normal mixture_same_family multinomial multivariate_normal negative_binomial
normal one_hot_categorical pareto poisson relaxed_bernoulli relaxed_categorical studentT
transformed_distribution uniform weibull wishart""".split()

ALIASES: dict[str, tuple[str, ...]] = {
    "nn.modules": ("nn",),
    **{f"nn.modules.{name}": ("nn",) for name in _NN},
    **{f"optim.{name}": ("optim",) for name in _OPTIM},
    **{
        f"distributions.{name}": (
            "distributions",
            "distributions.utils",
            "distributions.matrices",
            "",
        )
        for name in _DISTRIBUTIONS
    },
    "utils.data.sampler": ("utils.data",),
    "utils.data._utils": ("utils.data",),
    "utils.data._utils.collate": ("utils.data.collate", "utils.data"),
    "utils.data._utils.worker": ("utils.data.worker",),
    "utils.data._utils.pin_memory": ("utils.data.pin_memory",),
    "utils.data._utils.fetch": ("utils.data.dataset",),
    "fx.proxy": ("fx.trace", "fx"),
    "fx.graph_module": ("fx.interpreter", "fx"),
    "fx._symbolic_trace": ("fx.trace", "fx"),
    "fx._pytree": ("utils._pytree",),
    "cuda.random": ("cuda",),
    "cuda.memory": ("cuda",),
    "cuda.streams": ("cuda",),
    "_jit_internal": ("jit",),
    "jit._script": ("jit",),
    "jit._trace": ("jit",),
    "_dynamo.eval_frame": ("_dynamo",),
    "torch": ("",),
    "cuda.amp.autocast_mode": ("cuda.amp", "amp"),
    "cuda.amp.grad_scaler": ("cuda.amp", "amp.grad_scaler", "amp"),
    "amp.autocast_mode": ("amp",),
    "_tensor": ("",),
    "distributed.distributed_c10d": ("distributed", "distributed.group"),
    "distributed._tensor": ("distributed.tensor",),
    "distributed.checkpoint.stateful": ("distributed.checkpoint.run",),
    "distributed.checkpoint.state_dict_saver": ("distributed.checkpoint.run",),
    "distributed.checkpoint.state_dict_loader": ("distributed.checkpoint.run",),
    "distributed.checkpoint.api": ("distributed.checkpoint.run",),
    "distributed._composable": ("distributed.fsdp",),
    "distributed._composable.fsdp": ("distributed.fsdp",),
    "distributed._composable.fsdp.fully_shard": ("distributed.fsdp",),
    "distributed.fsdp._fully_shard": ("distributed.fsdp",),
    "distributed.fsdp._fully_shard._fsdp_api": ("distributed.fsdp",),
    "distributed._tensor.placement_types": ("distributed.tensor.placement_types",),
    "distributed.tensor._api": ("distributed.tensor",),
    "distributed.tensor._dtensor_spec": ("distributed.tensor.dtensor",),
    "distributed.constants": ("distributed", "distributed.group"),
    "utils.data.distributed": ("utils.data",),
    "torch_version": ("names", "names.version"),
    "_custom_ops": ("library",),
    # Packages import these; their functions are for an exporter.
    **{f"onnx.symbolic_opset{number}": ("onnx.symbolic_helper",) for number in range(7, 21)},
    "autograd.functional": ("func.reverse",),
    "autograd.forward_ad": ("func.forward",),
    "autograd.profiler": ("profiler",),
    "autograd.profiler_util": ("profiler",),
    "profiler.profiler": ("profiler",),
    "autograd.anomaly_mode": ("autograd",),
    "autograd.grad_mode": ("autograd",),
    "autograd.variable": ("autograd",),
    "_functorch.eager_transforms": ("func",),
    "nn.utils.stateless": ("func",),
    "_functorch": ("func",),
    "_functorch.vmap": ("func.vmap_names", "func"),
    "_ops": ("ops", "library.operator", "library.spaces"),
    "_library": ("library",),
    "_library.custom_ops": ("library",),
    "library.custom_ops": ("library",),
}
