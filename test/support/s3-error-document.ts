/** The XML that S3 answers an error with. */
export function s3ErrorDocument(code: string, message = "made by a test"): string {
  return `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>${code}</Code><Message>${message}</Message><RequestId>test</RequestId></Error>`;
}
