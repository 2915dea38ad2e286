package store

import (
	"context"
	"fmt"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const acceptEncoding = "Accept-Encoding"

type acceptEncodingKey struct{}

// leaveAcceptEncodingUnsigned keeps the Accept-Encoding header out of the
// signature and in the request. Google's front end rewrites that header before
// the signature is checked, so that a signature over it never matches.
func leaveAcceptEncodingUnsigned(stack *middleware.Stack) error {
	takeOut := middleware.FinalizeMiddlewareFunc("TakeOutAcceptEncoding",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			if req, ok := in.Request.(*smithyhttp.Request); ok {
				ctx = middleware.WithStackValue(ctx, acceptEncodingKey{}, req.Header.Get(acceptEncoding))
				req.Header.Del(acceptEncoding)
			}
			return next.HandleFinalize(ctx, in)
		})
	putBack := middleware.FinalizeMiddlewareFunc("PutBackAcceptEncoding",
		func(ctx context.Context, in middleware.FinalizeInput, next middleware.FinalizeHandler) (middleware.FinalizeOutput, middleware.Metadata, error) {
			value, _ := middleware.GetStackValue(ctx, acceptEncodingKey{}).(string)
			if req, ok := in.Request.(*smithyhttp.Request); ok && value != "" {
				req.Header.Set(acceptEncoding, value)
			}
			return next.HandleFinalize(ctx, in)
		})
	if err := stack.Finalize.Insert(takeOut, "Signing", middleware.Before); err != nil {
		return fmt.Errorf("insert middleware: %w", err)
	}
	if err := stack.Finalize.Insert(putBack, "Signing", middleware.After); err != nil {
		return fmt.Errorf("insert middleware: %w", err)
	}
	return nil
}
