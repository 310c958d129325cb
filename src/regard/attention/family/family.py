"""The family of attention as data: every system is one row of choices, and says how its attention is made here.

No torch is needed to read it. `page.py` prints it; `docs/family.md` and `docs/family.zh.md` are those prints.
"""

from dataclasses import dataclass
from typing import NamedTuple


class Text(NamedTuple):
    """One cell in English and in Chinese."""

    en: str
    zh: str


@dataclass(frozen=True)
class System:
    """One row of the table.

    Attributes:
        name: its key, for `regard family NAME`.
        title: as it is called.
        year: of the publication that the row follows.
        paper: authors, title, arXiv number.
        kinds: soft or hard; global or local; self or cross (both where it serves both).
        score, mask, normalizer, refocus, read: the choices of the row; an empty text is "none".
        here: Python that makes its attention with the parts of this package.
        model: the module or folder of this package that holds the whole system, or "" where there is none yet.
        later: what of the paper is not here yet, or an empty text. A row without a model must say it.
    """

    name: str
    title: Text
    year: int
    paper: str
    kinds: tuple[str, ...]
    score: Text
    mask: Text
    normalizer: Text
    refocus: Text
    read: Text
    here: str
    model: str = ""
    later: Text = Text("", "")


NONE = Text("", "")
PADDING = Text("padding", "填充")
SOFTMAX = Text("softmax", "softmax")
EXPECTATION = Text("expectation", "期望")


def family() -> tuple[System, ...]:
    """All rows, in the order of the table."""
    return SYSTEMS


SYSTEMS = (
    System(
        name="bahdanau",
        title=Text("Bahdanau", "Bahdanau 对齐模型"),
        year=2015,
        paper="Bahdanau, Cho, Bengio: "
        "Neural Machine Translation by Jointly Learning to Align and Translate. arXiv 1409.0473",
        kinds=("soft", "global", "cross"),
        score=Text("additive(s[t−1], h)", "加性 (s[t−1], h)"),
        mask=PADDING,
        normalizer=SOFTMAX,
        refocus=NONE,
        read=EXPECTATION,
        here='Attention(score("additive", query_dim=384, key_dim=512, hidden_dim=256))',
        model="regard.models.seq2seq.recurrent",
    ),
    System(
        name="luong-global",
        title=Text("Luong, global", "Luong 全局"),
        year=2015,
        paper="Luong, Pham, Manning: "
        "Effective Approaches to Attention-based Neural Machine Translation. arXiv 1508.04025",
        kinds=("soft", "global", "cross"),
        score=Text("dot, general, concat or location (s[t], h)", "点积、双线性、拼接或位置 (s[t], h)"),
        mask=PADDING,
        normalizer=SOFTMAX,
        refocus=NONE,
        read=Text("expectation, then tanh(W[c; h])", "期望，再经 tanh(W[c; h])"),
        here='Attention(score("general", query_dim=384, key_dim=512))',
        model="regard.models.seq2seq.recurrent",
    ),
    System(
        name="luong-local",
        title=Text("Luong, local-m and local-p", "Luong 局部（local-m、local-p）"),
        year=2015,
        paper="Luong, Pham, Manning: "
        "Effective Approaches to Attention-based Neural Machine Translation. arXiv 1508.04025",
        kinds=("soft", "local", "cross"),
        score=Text("any of these", "同上任意一种"),
        mask=Text("padding & around p[t]", "填充 & p[t] 附近"),
        normalizer=Text("softmax over the window", "窗口内 softmax"),
        refocus=Text("Gaussian at p[t] (local-p)", "以 p[t] 为中心的高斯（local-p）"),
        read=EXPECTATION,
        here='LocalAttention("scaled_dot", radius=10, kind="predictive", query_dim=384)',
        model="regard.models.seq2seq.recurrent",
    ),
    System(
        name="show-attend-tell",
        title=Text("Show, Attend and Tell: soft and hard", "看图说话：软性与硬性"),
        year=2015,
        paper="Xu et al.: "
        "Show, Attend and Tell: Neural Image Caption Generation with Visual Attention. arXiv 1502.03044",
        kinds=("soft", "hard", "global", "cross"),
        score=Text("additive over an image grid", "图片网格上的加性"),
        mask=NONE,
        normalizer=Text("softmax / sample", "softmax / 采样"),
        refocus=NONE,
        read=Text("expectation, then gate β · context / the sampled value", "期望，再乘门控 β / 采到的值"),
        here='Attention(score("additive", query_dim=512, key_dim=512, hidden_dim=256), normalizer="sample")',
        model="regard.models.captioning.captioner",
    ),
    System(
        name="pointer",
        title=Text("Pointer network", "指针网络"),
        year=2015,
        paper="Vinyals, Fortunato, Jaitly: Pointer Networks. arXiv 1506.03134",
        kinds=("soft", "global", "cross"),
        score=Text("additive(d, e)", "加性 (d, e)"),
        mask=Text("padding & not yet chosen", "填充 & 尚未选过"),
        normalizer=SOFTMAX,
        refocus=NONE,
        read=Text("none: a pointer", "不读取：指针"),
        here='Attention(score("additive", query_dim=128, key_dim=128, hidden_dim=128))  # value=None',
        model="regard.models.pointing.pointer",
    ),
    System(
        name="lstmn",
        title=Text("LSTMN", "LSTMN（机器阅读）"),
        year=2016,
        paper="Cheng, Dong, Lapata: Long Short-Term Memory-Networks for Machine Reading. arXiv 1601.06733",
        kinds=("soft", "global", "self"),
        score=Text(
            "additive vᵀtanh(W_h h[i] + W_x x[t] + W_h̃ h̃[t−1]) over its own past",
            "对自身过去的加性 vᵀtanh(W_h h[i] + W_x x[t] + W_h̃ h̃[t−1])",
        ),
        mask=Text("strictly past (step 1 reads 0)", "严格的过去（第 1 步读到 0）"),
        normalizer=SOFTMAX,
        refocus=NONE,
        read=Text("expectation of the hidden and of the memory tape", "隐状态带与记忆带的期望"),
        here='Attention(score("additive", query_dim=300 + 200, key_dim=200, hidden_dim=200))  # query [x[t]; h̃[t−1]]',
        model="regard.models.memory.lstmn",
    ),
    System(
        name="neural-turing-machine",
        title=Text("Neural Turing machine", "神经图灵机"),
        year=2014,
        paper="Graves, Wayne, Danihelka: Neural Turing Machines. arXiv 1410.5401",
        kinds=("soft", "global", "cross"),
        score=Text("cosine × β", "余弦 × β"),
        mask=NONE,
        normalizer=SOFTMAX,
        refocus=Text("interpolate → shift → sharpen", "插值 → 卷积移位 → 锐化"),
        read=Text("expectation; a write erases, then adds", "期望；写入先擦除再相加"),
        here='Attention(score("cosine", strength=2.0))  # refocus=[interpolate(…), shift(…), sharpen(…)] at the call',
        model="regard.models.memory.ntm",
    ),
    System(
        name="differentiable-neural-computer",
        title=Text("Differentiable neural computer", "可微神经计算机"),
        year=2016,
        paper="Graves et al.: Hybrid computing using a neural network with dynamic external memory. Nature 538",
        kinds=("soft", "global", "cross"),
        score=Text("cosine × β", "余弦 × β"),
        mask=NONE,
        normalizer=SOFTMAX,
        refocus=Text(
            "reading: mixed with forward and backward links; writing: mixed with the allocation, gated",
            "读：与向前、向后的链接混合；写：与分配混合，再过门",
        ),
        read=Text("expectation; a write erases, then adds; reads may free", "期望；写入先擦除再相加；读后可以释放"),
        here='Attention(score("cosine", strength=2.0))  # refocus=read_weighting(forward, backward, modes) at the call',
        model="regard.models.memory.dnc",
    ),
    System(
        name="key-value",
        title=Text("Key-value attention", "键值对注意力"),
        year=2016,
        paper="Miller et al.: Key-Value Memory Networks for Directly Reading Documents. arXiv 1606.03126",
        kinds=("soft", "global", "cross"),
        score=Text("any, K ≠ V (K = V is the plain case)", "任意，K ≠ V（K = V 时退回普通情形）"),
        mask=Text("any", "任意"),
        normalizer=SOFTMAX,
        refocus=NONE,
        read=EXPECTATION,
        here='Attention("scaled_dot")',
        model="regard.models.memory.key_value",
        later=Text(
            "the paper's hops over facts (the module is the language model of Daniluk et al. 2017, arXiv 1702.04521)",
            "论文中在事实上的多跳读取（该模块是 Daniluk 等 2017 的语言模型，arXiv 1702.04521）",
        ),
    ),
    System(
        name="learned-queries",
        title=Text("Learned queries (pooling)", "可学习的查询（汇聚）"),
        year=2017,
        paper="Lin et al.: A Structured Self-attentive Sentence Embedding. arXiv 1703.03130",
        kinds=("soft", "global", "cross"),
        score=Text("any; M learned queries over one X", "任意；M 个可学习查询看同一个 X"),
        mask=PADDING,
        normalizer=SOFTMAX,
        refocus=NONE,
        read=Text("expectation, concatenated", "期望，再拼接"),
        here="LearnedQueries(queries=4, dim=256)",
        model="regard.models.text.classifier",
        later=Text(
            "the paper's LSTM in both directions, and its penalty on queries that look alike",
            "论文的双向 LSTM，以及对彼此雷同的查询的惩罚项",
        ),
    ),
    System(
        name="transformer",
        title=Text("Transformer", "Transformer"),
        year=2017,
        paper="Vaswani et al.: Attention Is All You Need. arXiv 1706.03762",
        kinds=("soft", "global", "self", "cross"),
        score=Text("scaled dot, per head", "每个头一个缩放点积"),
        mask=Text("padding, causal", "填充、因果"),
        normalizer=SOFTMAX,
        refocus=NONE,
        read=Text("expectation, heads concatenated, W_o", "期望，各头拼接，再乘 W_o"),
        here="MultiHeadAttention(512, heads=8)",
        model="regard.models.transformer",
    ),
    System(
        name="snail",
        title=Text("SNAIL", "SNAIL"),
        year=2018,
        paper="Mishra et al.: A Simple Neural Attentive Meta-Learner. arXiv 1707.03141",
        kinds=("soft", "global", "self"),
        score=Text("scaled dot", "缩放点积"),
        mask=Text("causal", "因果"),
        normalizer=SOFTMAX,
        refocus=NONE,
        read=Text("expectation, concatenated to the input", "期望，与输入拼接"),
        here='Attention("scaled_dot")  # mask=masks.causal()',
        later=Text("temporal convolutions and few-shot tasks", "时间卷积与小样本任务"),
    ),
    System(
        name="sagan",
        title=Text("Self-attention GAN", "自注意力 GAN(SAGAN)"),
        year=2018,
        paper="Zhang et al.: Self-Attention Generative Adversarial Networks. arXiv 1805.08318",
        kinds=("soft", "global", "self"),
        score=Text("dot, unscaled, of 1×1 convolutions over all pixels", "全部像素的 1×1 卷积的点积，不缩放"),
        mask=NONE,
        normalizer=Text("softmax over i for each output j", "对每个输出 j 沿 i 做 softmax"),
        refocus=NONE,
        read=Text("γ · context + x, γ starts at 0", "γ · 上下文 + x,γ 从 0 开始"),
        here='Attention("dot")',
        later=Text("the image block, γ and the GAN", "图片上的块、γ 与生成对抗网络"),
    ),
    System(
        name="perceiver",
        title=Text("Perceiver", "Perceiver"),
        year=2021,
        paper="Jaegle et al.: Perceiver: General Perception with Iterative Attention. arXiv 2103.03206",
        kinds=("soft", "global", "cross"),
        score=Text("scaled dot, few latents query many bytes", "缩放点积，少数潜变量查询大量字节"),
        mask=PADDING,
        normalizer=SOFTMAX,
        refocus=NONE,
        read=EXPECTATION,
        here="MultiHeadAttention(512, heads=1, key_dim=261)",
        later=Text("the latent array and its senses", "潜变量阵列与多种感官输入"),
    ),
    System(
        name="linear",
        title=Text("Linear attention; fast weights", "线性注意力；快速权重"),
        year=2020,
        paper="Katharopoulos et al.: Transformers are RNNs: Fast Autoregressive Transformers with Linear Attention."
        " arXiv 2006.16236",
        kinds=("soft", "global", "self", "cross"),
        score=Text("φ(q)·φ(k)", "φ(q)·φ(k)"),
        mask=Text("causal", "因果"),
        normalizer=Text("sum", "求和归一化"),
        refocus=NONE,
        read=Text("expectation, never forming Tq × Tk", "期望，从不形成 Tq × Tk"),
        here='Attention("linear", normalizer="sum")  # linear_attention(…) never forms Tq × Tk',
        model="regard.attention.modules.fast_weights",
        later=Text("a Transformer whose layers use it", "各层使用它的 Transformer"),
    ),
    System(
        name="bottom-up",
        title=Text("Bottom-up cousins", "自下而上的近亲（显著性）"),
        year=2014,
        paper="Kim: Convolutional Neural Networks for Sentence Classification. arXiv 1408.5882 (max pooling over time)",
        kinds=("hard", "soft", "global", "self"),
        score=Text("the features themselves", "特征本身"),
        mask=NONE,
        normalizer=Text("hard over time, a head a channel / sigmoid", "沿时间取最大，每通道一个头 / sigmoid"),
        refocus=NONE,
        read=Text("max pooling / gating", "最大汇聚 / 门控"),
        here='normalizer("hard"), normalizer("sigmoid")  # bottom_up.max_pooling(features), gating(gates, features)',
        model="regard.attention.modules.bottom_up",
    ),
)
