package column

// remembered is for how many chunks more a judgement holds that was made of a
// sample.
const remembered = 7

// Memory is what was judged of a column by samples of one chunk, so that the next
// ones need none. It never decides what is right, only what takes less room. The
// zero value knows nothing. It must not be used by two chunks at once.
type Memory struct {
	hopeless, frames judgement
}

type judgement struct {
	yes  bool
	left int // chunks for which it holds
}

// recall returns the judgement of an earlier chunk, if it still holds.
func (j *judgement) recall() (yes, known bool) {
	if j.left == 0 {
		return false, false
	}
	j.left--

	return j.yes, true
}

func (j *judgement) keep(yes bool) { *j = judgement{yes, remembered} }
