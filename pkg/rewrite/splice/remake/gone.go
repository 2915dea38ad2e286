package remake

import (
	"encoding/binary"
	"math"

	"github.com/apache/arrow-go/v18/parquet"

	"compactor/pkg/rewrite/splice/stats"
)

// drop looks at a value that does not come out.
func (j *Job) drop(value any) {
	var plain [8]byte
	switch v := value.(type) {
	case float32:
		if math.IsNaN(float64(v)) {
			j.goneNaNs++
		} else {
			j.lost(binary.LittleEndian.AppendUint32(plain[:0], math.Float32bits(v)))
		}
	case float64:
		if math.IsNaN(v) {
			j.goneNaNs++
		} else {
			j.lost(binary.LittleEndian.AppendUint64(plain[:0], math.Float64bits(v)))
		}
	case bool:
		if v {
			plain[0] = 1
		}
		j.lost(plain[:1])
	case int32:
		j.lost(binary.LittleEndian.AppendUint32(plain[:0], uint32(v)))
	case int64:
		j.lost(binary.LittleEndian.AppendUint64(plain[:0], uint64(v)))
	case parquet.ByteArray:
		j.lost(v)
	case parquet.FixedLenByteArray:
		j.lost(v)
	}
}

// lost takes a PLAIN value into the bounds of what is gone.
func (j *Job) lost(plain []byte) {
	if !j.Gone {
		return
	}
	if j.gone.Min == nil || stats.Compare(j.Leaf, plain, j.gone.Min) < 0 {
		j.gone.Min = append(make([]byte, 0, len(plain)), plain...)
	}
	if j.gone.Max == nil || stats.Compare(j.Leaf, plain, j.gone.Max) > 0 {
		j.gone.Max = append(make([]byte, 0, len(plain)), plain...)
	}
}
