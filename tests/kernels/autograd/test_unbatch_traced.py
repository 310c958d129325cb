"""Who compiles a backward pass gets the gradients that are written out, and traces none of what makes them."""

from tests.plain import run_plain


def test_a_compiled_backward_pass_gives_the_same_gradients():
    """Loops and numpy write where a trace does not look: it failed within, or the gradients were others."""
    run_plain("""
        import torch
        import regard
        from regard import masks
        from regard.attention.modules.linear import linear_attention
        from regard.models.memory.ntm import NeuralTuringMachine
        from regard.models.memory.settings import NTMSettings
        from torch._dynamo import compiled_autograd

        def check(call, *inputs):
            wanted = torch.autograd.grad(call(*inputs).sin().sum(), inputs)
            total = call(*inputs).sin().sum()
            with compiled_autograd._enable(torch.compile(backend="aot_eager")):
                total.backward()
            for one, other in zip(inputs, wanted, strict=True):
                torch.testing.assert_close(one.grad, other, rtol=0, atol=0)
                one.grad = None

        torch.manual_seed(0)
        heads = [torch.randn(1, 2, 307, size, requires_grad=True) for size in (16, 16, 7)]
        bias = torch.randn(1, 1, 307, 307, requires_grad=True)
        check(lambda *given: regard.attend(*given).context, *heads)
        check(lambda *given: regard.attend(*given, mask=masks.window(16, 0)).context, *heads)
        check(lambda *given: regard.attend(*given[:3], bias=given[3]).context, *heads, bias)
        check(lambda *given: linear_attention(*given, causal=True), *heads)
        pairs = [torch.randn(2, 101, 32, requires_grad=True) for _ in range(3)]
        score = regard.score("additive", query_dim=32, key_dim=32, hidden_dim=32)
        check(lambda *given: regard.attend(*given, score=score).context, *pairs)
        check(NeuralTuringMachine(NTMSettings(kind="ntm"), 5, 3), torch.randn(3, 7, 5, requires_grad=True))
    """)
