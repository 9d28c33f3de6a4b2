"""Gradients of tables that are sparse: embedding(sparse=True), sums, optimizers."""

from contextlib import nullcontext

import numpy as np
import pytest

import rushlight as torch

nn = torch.nn
READ = torch.tensor([[1, 2], [1, 5]])


def table(**options):
    made = nn.Embedding(6, 4, sparse=True, **options)
    with torch.no_grad():
        made.weight.copy_(torch.arange(24.0).reshape(6, 4) / 10)
    return made


def close(found, wanted):
    np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), rtol=1e-5)


def test_the_gradient_has_the_rows_that_were_read():
    made = table()
    (made(READ) * 2).sum().backward()
    grad = made.weight.grad
    assert grad.is_sparse and grad.layout is torch.sparse_coo and not grad.is_coalesced()
    assert grad._indices().tolist() == [[1, 2, 1, 5]]
    assert grad.coalesce().indices().tolist() == [[1, 2, 5]]
    assert grad.to_dense()[:, 0].tolist() == [0, 4, 2, 0, 0, 2]
    found = torch.autograd.grad(made(READ).sum(), made.weight)[0]
    assert found.is_sparse


def test_the_padding_row_has_none():
    made = table(padding_idx=1)
    made(READ).sum().backward()
    assert made.weight.grad._indices().tolist() == [[2, 5]]


@pytest.mark.parametrize("order", ["sparse first", "dense first", "one pass"])
def test_sparse_and_dense_gradients_add_up(order):
    made = table()
    sparse, dense = made(READ).sum, lambda: (made.weight * 3).sum()
    if order == "one pass":
        (sparse() + dense()).backward()
    else:
        for part in (sparse, dense) if order == "sparse first" else (dense, sparse):
            part().backward()
    assert not made.weight.grad.is_sparse
    assert made.weight.grad[:, 0].tolist() == [3, 5, 4, 3, 3, 4]


def test_sparse_gradients_add_up_and_are_cleared():
    made = table()
    (made(READ).sum() + made(torch.tensor([0, 2])).sum()).backward()
    made(torch.tensor([0])).sum().backward()
    assert made.weight.grad.is_sparse
    assert made.weight.grad.to_dense()[:, 0].tolist() == [2, 2, 2, 0, 0, 1]
    made.zero_grad(set_to_none=False)
    assert made.weight.grad.is_sparse and made.weight.grad.to_dense().sum() == 0


@pytest.mark.parametrize("name, options", [
    ("SGD", {}), ("SGD", {"momentum": 0.9}), ("SGD", {"momentum": 0.9, "nesterov": True}),
    ("SGD", {"maximize": True}), ("Adagrad", {}),
])  # fmt: skip
def test_optimizers_do_the_same_as_with_a_dense_gradient(name, options):
    tables = table(), table()
    tables[1].sparse = False
    for made in tables:
        optimizer = getattr(torch.optim, name)(made.parameters(), lr=0.1, **options)
        for _ in range(4):
            optimizer.zero_grad()
            (made(READ) ** 2).sum().backward()
            optimizer.step()
    close(tables[0].weight, tables[1].weight)


def test_an_update_that_was_repeated_sees_a_gradient_become_sparse():
    made, other = table(), table()
    other.sparse = False
    for model in (made, other):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(8):
            model.sparse = model is made and step > 4
            optimizer.zero_grad()
            (model(READ) ** 2).sum().backward()
            optimizer.step()
    close(made.weight, other.weight)


def test_sparse_adam_leaves_other_rows():
    made = table()
    start = made.weight.detach().clone()
    optimizer = torch.optim.SparseAdam(made.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (made(READ) ** 2).sum().backward()
        optimizer.step()
    # PyTorch 2.13 gives these sums of rows.
    sums = [0.6, 1.01855, 2.60704, 5.4, 7.0, 7.40229]
    np.testing.assert_allclose(made.weight.detach().sum(1).numpy(), sums, rtol=1e-5)
    assert made.weight[3].equal(start[3])


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "Adamax", "NAdam", "Rprop"])
def test_other_optimizers_refuse_by_name(name):
    made = table()
    optimizer = getattr(torch.optim, name)(made.parameters())
    made(READ).sum().backward()
    with pytest.raises(RuntimeError, match=f"{name} does not support sparse gradients"):
        optimizer.step()


def test_by_hand_and_in_bags():
    made = table()
    (made(READ) ** 2).sum().backward()
    grad, dense = made.weight.grad, made.weight.grad.to_dense()
    wanted = made.weight.detach() - 0.5 * dense
    made.weight.data.add_(grad.data, alpha=-0.25)
    made.weight.data -= 0.25 * grad
    close(made.weight, wanted)
    grad.mul_(2).div_(4)
    close(grad.to_dense(), dense / 2)
    bag = nn.EmbeddingBag(6, 4, sparse=True, mode="sum")
    bag(torch.tensor([1, 2, 4, 5]), torch.tensor([0, 2])).sum().backward()
    assert bag.weight.grad.to_dense()[:, 0].tolist() == [0, 1, 1, 0, 1, 1]


def test_a_compiled_step_runs_as_it_is():
    plain, compiled = table(), table()
    for made in (plain, compiled):
        optimizer = torch.optim.SGD(made.parameters(), lr=0.1)

        def step(made=made, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (made(READ) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        run = torch.compile(step) if made is compiled else step
        with pytest.warns(match="a gradient is sparse") if made is compiled else nullcontext():
            for _ in range(4):
                run()
    close(plain.weight, compiled.weight)
