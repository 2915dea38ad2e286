package catalog

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	icecat "github.com/apache/iceberg-go/catalog"
	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"
	"github.com/aws/smithy-go"

	"compactor/internal/tablename"
)

// Answer is what is known about a commit after its answer, or the lack of one.
type Answer int

// The answers; the zero value is the one that promises nothing.
const (
	Unknown   Answer = iota // it may have happened, or may happen yet
	Committed               // it happened
	Rejected                // it did not happen, and the catalog gave a reason
	Conflict                // the catalog says that the table has moved on
)

// String returns the answer in one lower-case word.
func (a Answer) String() string {
	switch a {
	case Committed:
		return "committed"
	case Rejected:
		return "rejected"
	case Conflict:
		return "conflict"
	}
	return "unknown"
}

// CommitError is every error of CommitTable.
type CommitError struct {
	Ident  table.Identifier
	Answer Answer
	Status int  // HTTP status of the answer, 0 if there was none
	Sent   bool // whether the request may have left this machine; SQL: always true
	Err    error
}

// Error names the table, the class and the cause.
func (e *CommitError) Error() string {
	how := e.Answer.String()
	switch {
	case e.Status != 0:
		how += fmt.Sprintf(", HTTP status %d", e.Status)
	case !e.Sent:
		how += ", not sent"
	}
	return fmt.Sprintf("commit table %s (%s): %v", tablename.String(e.Ident), how, e.Err)
}

// Unwrap returns the cause.
func (e *CommitError) Unwrap() error { return e.Err }

// CommitTable sends requirements and updates in exactly one request, bounded by
// ctx's deadline, and never repeats it. After Unknown a retry is not safe:
// the caller has to find out from the table first. Every error is a *CommitError.
func (c *Catalog) CommitTable(
	ctx context.Context, ident table.Identifier, reqs []table.Requirement, updates []table.Update,
) (table.Metadata, string, error) {
	sent := &attempt{}
	if ctx.Err() != nil {
		return nil, "", &CommitError{Ident: ident, Answer: Rejected, Err: context.Cause(ctx)}
	}
	meta, location, err := c.commitInner(ctx, sent, ident, reqs, updates)
	if err == nil {
		return meta, location, nil
	}
	ce := &CommitError{Ident: ident, Status: int(sent.status.Load()), Sent: sent.sent.Load(), Err: err}
	if c.settings.Type == TypeSQL {
		ce.Sent = true // a database driver does not tell
	}
	ce.Answer = c.classify(ce)
	return nil, "", ce
}

func (c *Catalog) classify(e *CommitError) Answer {
	switch c.settings.Type {
	case TypeREST:
		return classifyREST(e)
	case TypeGlue:
		return classifyGlue(e)
	}
	return classifyLocal(e.Err)
}

// classifyREST goes by what was seen on the wire, not by the client library's
// error, which loses the status when a gateway answers with a page of its own.
func classifyREST(e *CommitError) Answer {
	switch e.Status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return Rejected
	case http.StatusConflict:
		return Conflict
	case 0:
		if !e.Sent {
			return Rejected
		}
	}
	return Unknown
}

// classifyGlue knows that Glue answers 400 to nearly everything, to some
// timeouts too, so that only errors known as final are a clean no.
func classifyGlue(e *CommitError) Answer {
	if a := classifyLocal(e.Err); a != Unknown {
		return a
	}
	if !e.Sent {
		return Rejected
	}
	var api smithy.APIError
	if errors.As(e.Err, &api) {
		switch api.ErrorCode() {
		case "AccessDeniedException", "EntityNotFoundException", "InvalidInputException", "ValidationException",
			"UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException", "IncompleteSignatureException":
			return Rejected
		}
	}
	return Unknown
}

// classifyLocal is for catalogs that check requirements in this process: the
// client library then returns a plain text.
func classifyLocal(err error) Answer {
	if errors.Is(err, table.ErrCommitFailed) || errors.Is(err, table.ErrCommitDiverged) || requirementFailed(err) {
		return Conflict
	}
	if errors.Is(err, icecat.ErrNoSuchNamespace) || sqliteRefused(err) {
		return Rejected
	}
	return Unknown
}

func requirementFailed(err error) bool {
	return strings.HasPrefix(strings.ToLower(err.Error()), "requirement failed")
}

// Classify tells what an error of a commit means; nil is Committed. It looks
// for a *CommitError first, however deep it is wrapped, and judges other
// errors by iceberg-go's sentinels alone: those raised before anything was sent
// are Conflict, the REST client's clean answers Rejected, the rest Unknown.
func Classify(err error) Answer {
	var ce *CommitError
	switch {
	case err == nil:
		return Committed
	case errors.As(err, &ce):
		return ce.Answer
	case errors.Is(err, table.ErrCommitFailed), errors.Is(err, table.ErrCommitDiverged):
		return Conflict
	case errors.Is(err, rest.ErrBadRequest), errors.Is(err, rest.ErrUnauthorized), errors.Is(err, rest.ErrForbidden),
		errors.Is(err, icecat.ErrNoSuchTable), errors.Is(err, icecat.ErrNoSuchNamespace):
		return Rejected
	case !errors.Is(err, rest.ErrRESTError) && requirementFailed(err):
		return Conflict
	}
	return Unknown
}

// attempt watches the one request of a commit.
type attempt struct {
	begun  atomic.Bool
	sent   atomic.Bool
	status atomic.Int32
}

type attemptKey struct{}

func withAttempt(ctx context.Context, a *attempt) context.Context {
	return context.WithValue(ctx, attemptKey{}, a)
}

func attemptOf(ctx context.Context) *attempt {
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	return a
}

// errSecondRequest stops whatever would send a commit again.
var errSecondRequest = errors.New("a commit is sent once: the second request was stopped")
