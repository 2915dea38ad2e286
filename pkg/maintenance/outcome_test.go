package maintenance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestClassedErrorsAreOneLine(t *testing.T) {
	signal := errors.New("received terminated")
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"cancelled work":   {classed(ErrStopped, signal, fmt.Errorf("read x: %w", context.Canceled)), "stopped: received terminated"},
		"echo of a cause":  {classed(ErrClaimLost, signal, fmt.Errorf("round 1: %w", signal)), "claim lost: received terminated"},
		"another failure":  {classed(ErrStopped, signal, io.ErrUnexpectedEOF), "stopped: received terminated: unexpected EOF"},
		"without a cause":  {classed(ErrPartial, nil, errors.Join(io.EOF, io.ErrClosedPipe)), "partly done: EOF; io: read/write on closed pipe"},
		"cancelled anyway": {classed(ErrPartial, nil, context.Canceled), "partly done: context canceled"},
		"nothing more":     {classed(errors.Join(io.EOF, signal), nil, nil), "EOF; received terminated"},
	} {
		require.EqualError(t, c.err, c.want, name)
	}
	err := classed(ErrStopped, signal, fmt.Errorf("read x: %w", context.Canceled))
	for _, target := range []error{ErrStopped, signal, context.Canceled} {
		require.ErrorIs(t, err, target, "what is not said is still found")
	}
	require.NotErrorIs(t, err, ErrClaimLost)
}
