package embed

import (
	"context"
	"math"
)

// A layer is one layer of the encoder.
type layer struct {
	query, key, value, attention linear
	afterAttn                    layerNorm
	up, down                     linear
	after                        layerNorm
}

// encode runs the encoder over the tokens and returns the mean of its outputs, of
// length 1.
func (m *Model) encode(ctx context.Context, ids []int32) ([]float32, error) {
	n, h := len(ids), m.shape.Hidden
	x := make([]float32, n*h)
	for i, id := range ids {
		row := x[i*h : (i+1)*h]
		copy(row, m.words[int(id)*h:])
		for j := range row {
			row[j] += m.positions[i*h+j] + m.kind[j]
		}
	}
	m.norm.apply(x)
	var b buffers
	b.take(n, h, m.shape.Intermediate)
	for i := range m.layers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		m.layers[i].apply(x, n, m.shape.Heads, &b)
	}
	mean := make([]float32, h)
	for i := range n {
		for j, v := range x[i*h : (i+1)*h] {
			mean[j] += v
		}
	}
	_ = normalise(mean) // a mean without direction stays as it is
	return mean, nil
}

// buffers hold the intermediate results of a layer.
type buffers struct{ query, key, value, mixed, out, wide, scores []float32 }

func (b *buffers) take(n, hidden, intermediate int) {
	for _, s := range []*[]float32{&b.query, &b.key, &b.value, &b.mixed, &b.out} {
		*s = make([]float32, n*hidden)
	}
	b.wide = make([]float32, n*intermediate)
	b.scores = make([]float32, n)
}

func (l *layer) apply(x []float32, n, heads int, b *buffers) {
	l.query.apply(b.query, x, n)
	l.key.apply(b.key, x, n)
	l.value.apply(b.value, x, n)
	attend(b, n, heads)
	l.attention.apply(b.out, b.mixed, n)
	addTo(x, b.out)
	l.afterAttn.apply(x)
	l.up.apply(b.wide, x, n)
	for i, v := range b.wide {
		b.wide[i] = float32(0.5 * float64(v) * (1 + math.Erf(float64(v)*(1/math.Sqrt2))))
	}
	l.down.apply(b.out, b.wide, n)
	addTo(x, b.out)
	l.after.apply(x)
}

// attend mixes the values of all tokens, weighted by how well their keys fit the query.
func attend(b *buffers, n, heads int) {
	h := len(b.query) / n
	width := h / heads
	scale := float32(1 / math.Sqrt(float64(width)))
	for head := range heads {
		from := head * width
		for i := range n {
			q := b.query[i*h+from : i*h+from+width]
			top := float32(math.Inf(-1))
			for j := range n {
				b.scores[j] = dot(q, b.key[j*h+from:j*h+from+width]) * scale
				top = max(top, b.scores[j])
			}
			var sum float32
			for j, s := range b.scores {
				b.scores[j] = float32(math.Exp(float64(s - top)))
				sum += b.scores[j]
			}
			out := b.mixed[i*h+from : i*h+from+width]
			clear(out)
			for j, s := range b.scores {
				s /= sum
				for k, v := range b.value[j*h+from : j*h+from+width] {
					out[k] += s * v
				}
			}
		}
	}
}

// linear is a matrix of out rows and in columns, and a bias.
type linear struct {
	weight, bias []float32
	in, out      int
}

// apply computes y = x·Wᵀ + b for n rows, four columns at a time, so that each number of
// x that is loaded is used several times.
func (l *linear) apply(y, x []float32, n int) {
	four := fourPlain
	if canUseAVX(l.in) {
		four = fourFast
	}
	o := 0
	for ; o+4 <= l.out; o += 4 {
		w := l.weight[o*l.in : (o+4)*l.in]
		b := l.bias[o : o+4]
		for i := range n {
			sums := four(x[i*l.in:(i+1)*l.in], w)
			out := y[i*l.out+o : i*l.out+o+4]
			for k := range out {
				out[k] = sums[k] + b[k]
			}
		}
	}
	for ; o < l.out; o++ {
		for i := range n {
			y[i*l.out+o] = dot(x[i*l.in:(i+1)*l.in], l.weight[o*l.in:(o+1)*l.in]) + l.bias[o]
		}
	}
}

// fourFast is fourPlain with the vector instructions of the processor, about eight times as
// fast.
func fourFast(x, w []float32) (sums [4]float32) {
	n := len(x)
	w = w[:4*n]
	fourAVX(&x[0], &w[0], &w[n], &w[2*n], &w[3*n], n, &sums)
	return sums
}

// fourPlain returns the products of x with the four rows of w.
func fourPlain(x, w []float32) [4]float32 {
	n := len(x)
	w0, w1, w2, w3 := w[:n], w[n:][:n], w[2*n:][:n], w[3*n:][:n] // spares the checks of bounds
	var s0, s1, s2, s3 float32
	for i, v := range x {
		s0 += v * w0[i]
		s1 += v * w1[i]
		s2 += v * w2[i]
		s3 += v * w3[i]
	}
	return [4]float32{s0, s1, s2, s3}
}

func dot(a, b []float32) float32 {
	var s0, s1, s2, s3 float32
	b = b[:len(a)]
	i := 0
	for ; i+4 <= len(a); i += 4 {
		s0 += a[i] * b[i]
		s1 += a[i+1] * b[i+1]
		s2 += a[i+2] * b[i+2]
		s3 += a[i+3] * b[i+3]
	}
	for ; i < len(a); i++ {
		s0 += a[i] * b[i]
	}
	return s0 + s1 + s2 + s3
}

// layerNorm scales each row to mean 0 and variance 1, then by its weights.
type layerNorm struct {
	weight, bias []float32
	epsilon      float64
}

func (l *layerNorm) apply(x []float32) {
	h := len(l.weight)
	for ; len(x) > 0; x = x[h:] {
		row := x[:h]
		var mean, variance float64
		for _, v := range row {
			mean += float64(v)
		}
		mean /= float64(h)
		for _, v := range row {
			variance += (float64(v) - mean) * (float64(v) - mean)
		}
		scale := 1 / math.Sqrt(variance/float64(h)+l.epsilon)
		for i, v := range row {
			row[i] = float32((float64(v)-mean)*scale)*l.weight[i] + l.bias[i]
		}
	}
}

func addTo(x, y []float32) {
	for i, v := range y {
		x[i] += v
	}
}
