package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// DeleteError lists what a DeleteFiles could not delete. Everything else that
// was asked for is gone.
type DeleteError struct {
	Failed []DeleteFailure
}

// Error names the first failure and how many there are.
func (e *DeleteError) Error() string {
	first := e.Failed[0]
	if len(e.Failed) == 1 {
		return fmt.Sprintf("delete %s: %v", first.Path, first.Err)
	}
	return fmt.Sprintf("delete %d objects, the first of them %s: %v", len(e.Failed), first.Path, first.Err)
}

// Unwrap lets errors.Is look into every failure.
func (e *DeleteError) Unwrap() []error {
	errs := make([]error, len(e.Failed))
	for i, f := range e.Failed {
		errs[i] = f.Err
	}
	return errs
}

// pathError gives err its operation and path, once.
func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	var have *fs.PathError
	if errors.As(err, &have) && have.Path == path {
		return err
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// HintDenied is the hint of a request that the store refuses although it knows
// the credentials.
const HintDenied = "the store's credentials do not allow this"

// kindError adds one of the fs sentinels and a hint to an answer of the store.
type kindError struct {
	kind error
	hint string
	err  error
	away bool // the store did not answer; trying again may help
}

// Hint is what the operator can do about it, in words; it may be empty.
func (e *kindError) Hint() string { return e.hint }

// Unreachable says that there was no answer.
func (e *kindError) Unreachable() bool { return e.away }

func (e *kindError) Error() string {
	text := e.err.Error()
	if e.kind != nil {
		text = e.kind.Error() + " (" + text + ")"
	}
	if e.hint != "" {
		text += "; " + e.hint
	}
	return text
}

func (e *kindError) Unwrap() []error {
	if e.kind == nil {
		return []error{e.err}
	}
	return []error{e.kind, e.err}
}

// explain turns an answer of the S3 client into one that says what is wrong in
// the terms of io/fs and, where it can, what to do. A missing bucket is no
// missing object: it is a wrong setting, and nothing may be concluded from it
// about any file.
func explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	code := errorCode(err)
	switch code {
	case "NoSuchKey", "NotFound":
		return &kindError{kind: fs.ErrNotExist, err: err}
	case "NoSuchBucket":
		return &kindError{err: err, hint: "check the bucket's name and the endpoint"}
	case "AccessDenied", "Forbidden", "AllAccessDisabled":
		return &kindError{kind: fs.ErrPermission, err: err, hint: HintDenied}
	case "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken":
		return &kindError{kind: fs.ErrPermission, err: err, hint: "check the store's access key, secret key and session token"}
	case "PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
		return &kindError{err: err, hint: "check the store's region and endpoint"}
	}
	switch statusOf(err) {
	case http.StatusNotFound:
		return &kindError{kind: fs.ErrNotExist, err: err}
	case http.StatusForbidden, http.StatusUnauthorized:
		return &kindError{kind: fs.ErrPermission, err: err, hint: HintDenied}
	}
	var op *net.OpError
	var dns *net.DNSError
	if errors.As(err, &dns) || (errors.As(err, &op) && op.Op == "dial") {
		return &kindError{err: err, hint: "the store" + hostOf(err) + " cannot be reached: check the endpoint and the network", away: true}
	}
	return err
}

func errorCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

func statusOf(err error) int {
	var re *smithyhttp.ResponseError
	if errors.As(err, &re) {
		return re.HTTPStatusCode()
	}
	return 0
}

func hostOf(err error) string {
	var ue *url.Error
	if errors.As(err, &ue) {
		if u, perr := url.Parse(ue.URL); perr == nil && u.Host != "" {
			return " at " + u.Host
		}
	}
	return ""
}
