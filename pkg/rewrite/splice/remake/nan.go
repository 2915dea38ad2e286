package remake

import "math"

// float32 passes a value on and looks at its bits: arrow-go (v18.8.0) takes all
// NaNs for one when it makes a dictionary, and gives back the first.
func (j *Job) float32(v float32) (float32, error) {
	if math.IsNaN(float64(v)) {
		j.sawNaN(uint64(math.Float32bits(v)))
	}

	return v, nil
}

// float64 does the same.
func (j *Job) float64(v float64) (float64, error) {
	if math.IsNaN(v) {
		j.sawNaN(math.Float64bits(v))
	}

	return v, nil
}

func (j *Job) sawNaN(bits uint64) {
	j.nans++
	if j.nan == 0 { // the bits of no NaN
		j.nan = bits
	}
	j.nanForms = j.nanForms || bits != j.nan
}
