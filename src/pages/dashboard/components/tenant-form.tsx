/** A form that chooses a tenant by its name, for the page at `action`. */
import type { FC, PropsWithChildren } from "hono/jsx";
import { Submit } from "../../ui/parts.tsx";

/** @param props `children`: further actions, beside the button */
export const TenantForm: FC<PropsWithChildren<Readonly<{ action: string; button: string }>>> = ({
  action,
  button,
  children,
}) => (
  <form class="stack" method="get" action={action}>
    <label>
      Tenant
      <input name="tenant" required maxlength={64} placeholder="acme" autocomplete="off" spellcheck={false} />
    </label>
    <div class="actions">
      <Submit>{button}</Submit>
      {children}
    </div>
  </form>
);
