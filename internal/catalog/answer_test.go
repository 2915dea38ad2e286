package catalog_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/apache/iceberg-go/catalog/rest"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	"compactor/internal/catalog"
	"compactor/internal/testenv"
)

const commitPath = "/v1/*/namespaces/*/tables/*"

func isCommit(r testenv.Request) bool { return testenv.Is(http.MethodPost, commitPath)(r) }

// Each way an answer can be wrong, with what may be concluded from it. applied
// tells whether the catalog has carried the commit out.
func TestCase_C13EveryAnswerOfACommitHasItsClass(t *testing.T) {
	const refused = `{"error":{"message":"no","type":"SomeException","code":%d}}`
	answer := func(status int) testenv.Action {
		return testenv.AnswerWithoutForward(status, fmt.Sprintf(refused, status))
	}
	cut := testenv.RewriteAnswer(func(status int, _ http.Header, body []byte) (int, []byte) { return status, body[:len(body)/2] })
	for name, test := range map[string]struct {
		action  testenv.Action
		want    catalog.Answer
		status  int
		applied bool
	}{
		"400":                         {action: answer(400), want: catalog.Rejected, status: 400},
		"401":                         {action: answer(401), want: catalog.Rejected, status: 401},
		"403":                         {action: answer(403), want: catalog.Rejected, status: 403},
		"404":                         {action: answer(404), want: catalog.Rejected, status: 404},
		"403 with a page":             {action: testenv.AnswerWithoutForward(403, "<html>"), want: catalog.Rejected, status: 403},
		"409":                         {action: answer(409), want: catalog.Conflict, status: 409},
		"409 with a page":             {action: testenv.AnswerWithoutForward(409, "<html>"), want: catalog.Conflict, status: 409},
		"409 after forward":           {action: testenv.ForwardThenAnswer(409, ""), want: catalog.Conflict, status: 409, applied: true},
		"408":                         {action: answer(408), want: catalog.Unknown, status: 408},
		"419":                         {action: answer(419), want: catalog.Unknown, status: 419},
		"429":                         {action: answer(429), want: catalog.Unknown, status: 429},
		"500":                         {action: answer(500), want: catalog.Unknown, status: 500},
		"501":                         {action: answer(501), want: catalog.Unknown, status: 501},
		"502":                         {action: answer(502), want: catalog.Unknown, status: 502},
		"503":                         {action: answer(503), want: catalog.Unknown, status: 503},
		"504 after forward":           {action: testenv.ForwardThenAnswer(504, ""), want: catalog.Unknown, status: 504, applied: true},
		"204":                         {action: testenv.ForwardThenAnswer(204, ""), want: catalog.Unknown, status: 204, applied: true},
		"a redirect":                  {action: redirect(), want: catalog.Unknown, applied: true},
		"closed without forward":      {action: testenv.DropWithoutForward(), want: catalog.Unknown},
		"closed after forward":        {action: testenv.ForwardThenClose(), want: catalog.Unknown, applied: true},
		"200 with an empty body":      {action: testenv.ForwardThenAnswer(200, ""), want: catalog.Unknown, status: 200, applied: true},
		"200 with an empty document":  {action: testenv.ForwardThenAnswer(200, "{}"), want: catalog.Unknown, status: 200, applied: true},
		"200 with half a body":        {action: cut, want: catalog.Unknown, status: 200, applied: true},
		"nothing until the time ends": {action: testenv.Delay(time.Minute), want: catalog.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			lake := testenv.SharedLake(t)
			proxy := testenv.NewProxy(t, lake.CatalogURI)
			c := open(t, lakeOptions(lake, proxy.URL))
			ident := createTable(t, c, lake.Namespace, "t")
			tbl := load(t, c, ident)
			proxy.ResetRequests()
			proxy.Handle(testenv.Rule{Match: testenv.MethodPath(http.MethodPost, commitPath), Action: test.action})

			limit := 10 * time.Second
			if name == "nothing until the time ends" {
				limit = 300 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := commit(ctx, t, c, tbl, "x")
			require.Error(t, err)
			require.Equal(t, test.want, catalog.Classify(err), "%v", err)
			require.Equal(t, test.want, catalog.Classify(fmt.Errorf("round 3: %w", err)), "wrapped")
			var ce *catalog.CommitError
			require.ErrorAs(t, err, &ce)
			require.Equal(t, ident, ce.Ident)
			require.True(t, ce.Sent)
			if test.status != 0 {
				require.Equal(t, test.status, ce.Status)
			}
			require.Equal(t, 1, proxy.Count(isCommit), "sent once")

			proxy.ClearRules()
			_, applied := load(t, c, ident).Properties()["mark"]
			require.Equal(t, test.applied, applied)
		})
	}
}

// redirect carries the commit out and answers 307 to another table's path on the same
// server, which a client would follow with the same body.
func redirect() testenv.Action {
	return testenv.RewriteAnswer(func(_ int, h http.Header, _ []byte) (int, []byte) {
		h.Set("Location", "/v1/analytics/namespaces/x/tables/y")
		return http.StatusTemporaryRedirect, nil
	})
}

func TestAYesIsCommittedAndSentOnce(t *testing.T) {
	lake := testenv.SharedLake(t)
	proxy := testenv.NewProxy(t, lake.CatalogURI)
	c := open(t, lakeOptions(lake, proxy.URL))
	tbl := load(t, c, createTable(t, c, lake.Namespace, "t"))
	proxy.ResetRequests()
	err := commit(t.Context(), t, c, tbl, "x")
	require.NoError(t, err)
	require.Equal(t, catalog.Committed, catalog.Classify(err))
	require.Len(t, proxy.Requests(), 1)
}

func TestARequestThatNeverLeftIsACleanNo(t *testing.T) {
	lake := testenv.NewLake(t)
	c := open(t, lakeOptions(lake, lake.CatalogURI))
	tbl := load(t, c, createTable(t, c, lake.Namespace, "t"))

	dead, cancel := context.WithCancelCause(t.Context())
	lost := errors.New("the claim was lost")
	cancel(lost)
	err := commit(dead, t, c, tbl, "x")
	require.Equal(t, catalog.Rejected, catalog.Classify(err))
	require.ErrorIs(t, err, lost)

	lake.Kill9(t)
	err = commit(t.Context(), t, c, tbl, "x")
	require.Equal(t, catalog.Rejected, catalog.Classify(err), "%v", err)
	var ce *catalog.CommitError
	require.ErrorAs(t, err, &ce)
	require.False(t, ce.Sent)
	require.ErrorContains(t, err, "not sent")
}

func TestATokenThatIsRefusedStopsTheCommitBeforeItIsSent(t *testing.T) {
	lake := testenv.SharedLake(t)
	proxy := testenv.NewProxy(t, lake.CatalogURI)
	// A token that lives for a second is renewed before each request.
	proxy.Handle(testenv.Rule{
		Match: testenv.MethodPath(http.MethodPost, "/v1/oauth/tokens"),
		Action: testenv.RewriteAnswer(func(status int, _ http.Header, body []byte) (int, []byte) {
			return status, shortLived(t, body)
		}),
	})
	c := open(t, lakeOptions(lake, proxy.URL))
	ident := createTable(t, c, lake.Namespace, "t")
	tbl := load(t, c, ident)
	proxy.ClearRules()
	proxy.Handle(testenv.Rule{
		Match:  testenv.MethodPath(http.MethodPost, "/v1/oauth/tokens"),
		Action: testenv.AnswerWithoutForward(http.StatusUnauthorized, `{"error":"invalid_client"}`),
	})
	proxy.ResetRequests()
	err := commit(t.Context(), t, c, tbl, "x")
	require.Equal(t, catalog.Rejected, catalog.Classify(err), "%v", err)
	require.Zero(t, proxy.Count(isCommit))
}

func TestErrorsOfOthersAreClassedByTheirSentinels(t *testing.T) {
	for want, errs := range map[catalog.Answer][]error{
		catalog.Conflict: {
			table.ErrCommitFailed, table.ErrCommitDiverged, fmt.Errorf("attempt 1: %w", rest.ErrCommitFailed),
			errors.New("requirement failed: branch main has changed"), errors.New("Requirement failed: no table"),
		},
		catalog.Rejected: {rest.ErrBadRequest, rest.ErrUnauthorized, rest.ErrForbidden},
		catalog.Unknown: {
			rest.ErrCommitStateUnknown, rest.ErrServerError, rest.ErrRESTError, errors.New("EOF"), context.DeadlineExceeded,
			fmt.Errorf("%w: requirement failed", rest.ErrRESTError),
		},
		catalog.Committed: {nil},
	} {
		for _, err := range errs {
			require.Equal(t, want, catalog.Classify(err), "%v", err)
		}
	}
	require.Equal(t, catalog.Unknown, catalog.Answer(0), "the zero value promises nothing")
}

func shortLived(t *testing.T, body []byte) []byte {
	t.Helper()
	var token map[string]any
	require.NoError(t, json.Unmarshal(body, &token))
	token["expires_in"] = 1
	changed, err := json.Marshal(token)
	require.NoError(t, err)
	return changed
}
