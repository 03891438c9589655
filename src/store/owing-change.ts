/** Noted by whatever changes what an object owes: a timer or a message more, or less. Taken at each commit. */
export class OwingChange {
  happened = false;

  take(): boolean {
    const { happened } = this;
    this.happened = false;
    return happened;
  }
}
